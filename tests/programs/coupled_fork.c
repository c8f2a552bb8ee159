/* Writes a coupled file, and forks while it has it open.
 *
 *   coupled_fork HOW FILE
 *
 * HOW is `killed`: the child is killed before any instruction of the library that exchanges files;
 * `refused`: there is no child, because the system refuses it; or `ends`: the child exits normally.
 * Prints the results of fork and close. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int kills;

static void die(void) {
    if (kills) raise(SIGKILL);
}

/* Runs before the constructors of libraries, so that this handler runs first in a child. */
static void first(void) { pthread_atfork(NULL, NULL, die); }

__attribute__((section(".preinit_array"), used)) static void (*begin)(void) = first;

/* Makes the system refuse new processes from now on. */
static void refuse(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644), status = 0;
    if (fd == -1 || write(fd, "text", 4) != 4) {
        perror(argv[2]);
        return 2;
    }
    kills = strcmp(argv[1], "killed") == 0;
    if (strcmp(argv[1], "refused") == 0) refuse();
    pid_t child = fork();
    if (child == 0) _exit(0);
    printf("fork: %s\n", child == -1 ? strerror(errno) : "a child");
    if (child > 0 && waitpid(child, &status, 0) != child) return 2;
    if (WIFSIGNALED(status)) printf("killed\n");
    int closed = close(fd);
    printf("close: %s\n", closed == -1 ? strerror(errno) : "done");
    return 0;
}
