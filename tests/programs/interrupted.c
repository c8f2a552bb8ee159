// A signal handler writes records to the descriptor that the program writes to: every record of
// both is there once, whole, and those of each in order. Ends in the handler.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int fd;
static volatile long fired;

static void handler(int signal) {
  char record[17];
  (void)signal;
  long number = fired++;
  memcpy(record, "h00000000000000\n", 16);
  for (int at = 14; number; at--, number /= 10) record[at] = '0' + number % 10;
  if (write(fd, record, 16) != 16) _exit(3);
  if (fired == 3000) _exit(0);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  struct itimerval often = {{0, 100}, {0, 100}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (long i = 0; i < 100000000; i++) {
    char record[17] = "p00000000000000\n";
    long number = i;
    for (int at = 14; number; at--, number /= 10) record[at] = '0' + number % 10;
    if (write(fd, record, 16) != 16) return 4;
  }
  return 5;
}
