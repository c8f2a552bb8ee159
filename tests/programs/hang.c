/* Rank 0 waits for a message that nobody sends: what the watchdog is for. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    printf("started\n");
    fflush(stdout);
    if (check_rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return check_finish();
}
