/* A file in the sessions model: MPI_COMM_WORLD is never there. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
#if MPI_VERSION < 4
    (void)argc, (void)argv;
    MPI_Init(NULL, NULL);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("ok: this MPI has no sessions\n");
    MPI_Finalize();
    return 0;
#else
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_File file;
    MPI_Status status;
    int rank, size, errors = 0, all = 0, seen[2] = {-1, -1}, mine[2];
    if (argc < 2 || MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session) != MPI_SUCCESS)
        return 2;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "aggio", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    mine[0] = rank, mine[1] = -rank;
    errors += MPI_File_open(comm, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) !=
              MPI_SUCCESS;
    errors += MPI_File_write_at_all(file, 8 * rank, mine, 2, MPI_INT, &status) != MPI_SUCCESS;
    MPI_Barrier(comm);
    errors += MPI_File_read_at_all(file, 8 * ((rank + 1) % size), seen, 2, MPI_INT, &status) !=
              MPI_SUCCESS;
    errors += seen[0] != (rank + 1) % size || seen[1] != -seen[0];
    errors += MPI_File_write_ordered(file, mine, 2, MPI_INT, &status) != MPI_SUCCESS;
    errors += MPI_File_close(&file) != MPI_SUCCESS;
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0)
        printf(all ? "%d errors\n" : "ok\n", all);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return all != 0;
#endif
}
