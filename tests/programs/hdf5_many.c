/* A file of many small datasets: one call makes it, another opens it and reads a value of each.
 *
 * hdf5_many FILE make|read|reread|together COUNT
 *
 * Every rank reads every dataset, independently; `reread` of a file that is open for writing, too,
 * once before and once after rank 0 has changed a value; `together` with collective requests for
 * the structure of the file. Prints `seconds S`, from open to close.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ok(int fine, const char *what) {
    if (fine) return;
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) ok((call) >= 0, #call)

static int together;

static hid_t access_properties(void) {
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS);
    if (together) OK(H5Pset_all_coll_metadata_ops(properties, 1));
    OK(H5Pset_fapl_mpio(properties, MPI_COMM_WORLD, MPI_INFO_NULL));
    return properties;
}

static void make(const char *path, int count) {
    hsize_t length = 100, chunk = 30;
    hid_t access = access_properties();
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    OK(file);
    hid_t space = H5Screate_simple(1, &length, NULL), properties = H5Pcreate(H5P_DATASET_CREATE);
    OK(H5Pset_chunk(properties, 1, &chunk));
    for (int n = 0; n < count; n++) {
        char name[32];
        int values[100];
        for (int i = 0; i < 100; i++) values[i] = 1000 * n + i;
        sprintf(name, "set %d", n);
        hid_t set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, properties,
                               H5P_DEFAULT);
        OK(set);
        OK(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        H5Dclose(set);
    }
    H5Pclose(properties);
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(access);
}

/* Changes a value of dataset 0, or changes it back. */
static void change(hid_t file, int value) {
    hsize_t at = 7, one = 1;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        hid_t set = H5Dopen2(file, "set 0", H5P_DEFAULT);
        OK(set);
        hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &one, NULL);
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL));
        OK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, &value));
        H5Sclose(memory);
        H5Sclose(space);
        H5Dclose(set);
    }
    OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
}

static void check_changed(hid_t file, int value) {
    int values[100];
    hid_t set = H5Dopen2(file, "set 0", H5P_DEFAULT);
    OK(set);
    OK(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 100; i++) ok(values[i] == (i == 7 ? value : i), "wrong value of set 0");
    H5Dclose(set);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void look(const char *path, int count, unsigned mode) {
    hid_t access = access_properties();
    hid_t file = H5Fopen(path, mode, access);
    OK(file);
    for (int n = 0; n < count; n++) {
        char name[32];
        int value = -1;
        hsize_t at = n % 100, one = 1;
        sprintf(name, "set %d", n);
        hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
        OK(set);
        hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &one, NULL);
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL));
        OK(H5Dread(set, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, &value));
        ok(value == 1000 * n + n % 100, "wrong value");
        H5Sclose(memory);
        H5Sclose(space);
        H5Dclose(set);
    }
    if (mode == H5F_ACC_RDWR) {
        check_changed(file, 7);
        change(file, -7);
        check_changed(file, -7);
        change(file, 7);
        check_changed(file, 7);
    }
    H5Fclose(file);
    H5Pclose(access);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ok(argc == 4, "usage: hdf5_many FILE make|read|reread|together COUNT");
    together = !strcmp(argv[2], "together");
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (!strcmp(argv[2], "make")) make(argv[1], atoi(argv[3]));
    else look(argv[1], atoi(argv[3]), strcmp(argv[2], "reread") ? H5F_ACC_RDONLY : H5F_ACC_RDWR);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("seconds %.6f\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
