/* An experiment: the ranks write the rows of an image, in chunks, once for each shot. */
#include <hdf5.h>
#include <mpi.h>
#include <stdlib.h>

enum { ROWS = 256, COLUMNS = 300, SHOTS = 4 };

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hsize_t start[2] = {(hsize_t)(ROWS * rank / ranks), 0}, all[2] = {ROWS, COLUMNS};
    hsize_t count[2] = {(hsize_t)(ROWS * (rank + 1) / ranks) - start[0], COLUMNS};
    int *rows = malloc(sizeof *rows * count[0] * count[1]);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    for (int shot = 1; shot <= SHOTS; shot++) {
        for (hsize_t i = 0; i < count[0] * count[1]; i++)
            rows[i] = (int)(start[0] * COLUMNS + i) * shot;
        hid_t file = H5Fcreate("image.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
        hid_t space = H5Screate_simple(2, all, NULL), create = H5Pcreate(H5P_DATASET_CREATE);
        hsize_t chunk[2] = {32, 100};
        H5Pset_chunk(create, 2, chunk);
        hid_t image = H5Dcreate2(file, "image", H5T_NATIVE_INT, space, H5P_DEFAULT, create,
                                 H5P_DEFAULT);
        hid_t memory = H5Screate_simple(2, count, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        if (H5Dwrite(image, H5T_NATIVE_INT, memory, space, transfer, rows) < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        H5Sclose(memory), H5Sclose(space), H5Pclose(create), H5Dclose(image);
        if (H5Fclose(file) < 0) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(rows);
    H5Pclose(access), H5Pclose(transfer);
    MPI_Finalize();
    return 0;
}
