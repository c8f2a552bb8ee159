/* A child that was started without the preloaded library opens a file together with its parents:
 * all ranks of the job, or the last one alone.
 *
 * usage: spawned FILE [last]
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, all;
    MPI_File fh;
    MPI_Init(&argc, &argv);
    if (argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm parents = argc > 2 ? MPI_COMM_SELF : MPI_COMM_WORLD;
        int rank, size;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (argc > 2 && rank + 1 < size) {
            MPI_Finalize();
            return 0;
        }
        char *arguments[] = {"-u", "LD_PRELOAD", argv[0], argv[1], NULL};
        MPI_Comm_spawn("/usr/bin/env", arguments, 1, MPI_INFO_NULL, 0, parents, &inter,
                       MPI_ERRCODES_IGNORE);
        MPI_Intercomm_merge(inter, 0, &all);
    } else {
        MPI_Intercomm_merge(parent, 1, &all);
    }
    MPI_File_open(all, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &fh);
    MPI_File_close(&fh);
    MPI_Finalize();
    return 0;
}
