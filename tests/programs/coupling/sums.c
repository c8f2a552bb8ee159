/* What follows the experiment, with another MPI: the sum of each image, whose columns the ranks
 * share. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 256, COLUMNS = 300, SHOTS = 4 };

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hsize_t start[2] = {0, (hsize_t)(COLUMNS * rank / ranks)};
    hsize_t count[2] = {ROWS, (hsize_t)(COLUMNS * (rank + 1) / ranks) - start[1]};
    int *columns = malloc(sizeof *columns * count[0] * count[1]);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    for (int shot = 1; shot <= SHOTS; shot++) {
        hid_t file = H5Fopen("image.h5", H5F_ACC_RDONLY, access);
        if (file < 0) MPI_Abort(MPI_COMM_WORLD, 1);
        hid_t image = H5Dopen2(file, "image", H5P_DEFAULT), space = H5Dget_space(image);
        hid_t memory = H5Screate_simple(2, count, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        if (H5Dread(image, H5T_NATIVE_INT, memory, space, transfer, columns) < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        long sum = 0, all;
        for (hsize_t i = 0; i < count[0] * count[1]; i++) sum += columns[i];
        MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) printf("shot %d: %ld\n", shot, all);
        H5Sclose(memory), H5Sclose(space), H5Dclose(image), H5Fclose(file);
    }
    free(columns);
    H5Pclose(access), H5Pclose(transfer);
    MPI_Finalize();
    return 0;
}
