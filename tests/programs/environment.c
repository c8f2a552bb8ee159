/* What PNETCDF_HINTS holds before MPI starts, after, and in a child that is an MPI program itself.
 *
 *     mpirun -n 1 environment [child]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *when)
{
    const char *hints = getenv("PNETCDF_HINTS");
    printf("%s=[%s]\n", when, hints ? hints : "(unset)");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child")) {
        /* Linked with MPI, which it does not start. */
        int version, subversion;
        MPI_Get_version(&version, &subversion);
        tell("child");
        return 0;
    }
    tell("loaded");
    pid_t child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], "child", (char *)NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    MPI_Init(&argc, &argv);
    tell("started");
    MPI_Finalize();
    return status != 0;
}
