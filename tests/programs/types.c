/* Every way to make a datatype, nested at random: memory of such a type must travel as MPI_Pack
   sees it, and a view of such a filetype must show the bytes that MPI_Unpack would fill. One rank
   checks alone; all do the same. */
#include "check.h"

#define ROOM 40000
#define ORIGIN 12000

static unsigned long long state = 88172645463325252ULL;

static int any(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 11) % (unsigned)below);
}

static MPI_Datatype named(int i)
{
    static MPI_Datatype list[64];
    static int n;
    /* No long double and no bool: some libraries pack only what means something of their bytes. */
    if (n == 0) {
        MPI_Datatype all[] = {MPI_BYTE,
                              MPI_CHAR,
                              MPI_SIGNED_CHAR,
                              MPI_UNSIGNED_CHAR,
                              MPI_WCHAR,
                              MPI_SHORT,
                              MPI_UNSIGNED_SHORT,
                              MPI_INT,
                              MPI_UNSIGNED,
                              MPI_LONG,
                              MPI_UNSIGNED_LONG,
                              MPI_LONG_LONG,
                              MPI_FLOAT,
                              MPI_DOUBLE,
                              MPI_INT8_T,
                              MPI_INT16_T,
                              MPI_INT32_T,
                              MPI_INT64_T,
                              MPI_UINT8_T,
                              MPI_UINT64_T,
                              MPI_AINT,
                              MPI_OFFSET,
                              MPI_COUNT,
                              MPI_C_FLOAT_COMPLEX,
                              MPI_C_DOUBLE_COMPLEX,
                              MPI_FLOAT_INT,
                              MPI_DOUBLE_INT,
                              MPI_LONG_INT,
                              MPI_SHORT_INT,
                              MPI_2INT,
                              MPI_PACKED,
                              MPI_CHARACTER,
                              MPI_LOGICAL,
                              MPI_INTEGER,
                              MPI_REAL,
                              MPI_DOUBLE_PRECISION,
                              MPI_COMPLEX,
                              MPI_DOUBLE_COMPLEX,
                              MPI_2INTEGER,
                              MPI_2REAL};
        for (unsigned k = 0; k < sizeof all / sizeof all[0]; k++)
            if (all[k] != MPI_DATATYPE_NULL)
                list[n++] = all[k];
        MPI_Type_create_f90_real(6, 30, &list[n++]);
        MPI_Type_create_f90_complex(15, MPI_UNDEFINED, &list[n++]);
        MPI_Type_create_f90_integer(8, &list[n++]);
    }
    return list[i < 0 ? any(n) : i % n];
}

/* A type of the given depth; "ascending" keeps to what a view may have. */
static MPI_Datatype grow(int depth, int ascending)
{
    MPI_Datatype child, type = MPI_DATATYPE_NULL;
    MPI_Aint lb, extent, aints[4];
    int ints[4], lens[4], n = 1 + any(3);
    if (depth == 0)
        return named(-1);
    child = grow(depth - 1, ascending);
    if (child == MPI_DATATYPE_NULL)
        return child;
    MPI_Type_get_extent(child, &lb, &extent);
    if (extent <= 0)
        extent = 1;
    for (int i = 0, at = 0; i < n; i++) {
        lens[i] = any(3);
        ints[i] = ascending ? at + any(3) : any(9) - 3;
        aints[i] = ascending ? at * extent + any(5) : (any(9) - 4) * extent + any(4);
        at = (ascending ? ints[i] : at) + lens[i] + 1;
    }
    switch (any(12)) { /* A refused type stays null. */
    case 0: MPI_Type_dup(child, &type); break;
    case 1: MPI_Type_contiguous(any(4), child, &type); break;
    case 2:
        MPI_Type_vector(1 + any(3), 1 + any(2), ascending ? 2 + any(3) : any(7) - 3, child, &type);
        break;
    case 3:
        MPI_Type_create_hvector(1 + any(3), 1, ascending ? extent + any(9) : any(99) - 50, child,
                                &type);
        break;
    case 4: MPI_Type_indexed(n, lens, ints, child, &type); break;
    case 5: MPI_Type_create_hindexed(n, lens, aints, child, &type); break;
    case 6: MPI_Type_create_indexed_block(n, 1, ints, child, &type); break;
    case 7: MPI_Type_create_hindexed_block(n, 1, aints, child, &type); break;
    case 8: {
        MPI_Datatype children[4];
        for (int i = 0; i < n; i++)
            children[i] = i == 0 || ascending ? child : named(-1);
        MPI_Type_create_struct(n, lens, aints, children, &type);
        break;
    }
    case 9: {
        int sizes[2] = {2 + any(3), 2 + any(3)}, sub[2], start[2];
        for (int i = 0; i < 2; i++) {
            sub[i] = 1 + any(sizes[i]);
            start[i] = any(sizes[i] - sub[i] + 1);
        }
        MPI_Type_create_subarray(2, sizes, sub, start, any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                                 child, &type);
        break;
    }
    case 10: {
        int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
        int sizes[2] = {1 + any(5), 1 + any(5)}, kind[2], arg[2], processes[2] = {2, 1};
        kind[0] = kinds[any(2)];
        kind[1] = kinds[any(3)];
        for (int i = 0; i < 2; i++)
            arg[i] =
                kind[i] == MPI_DISTRIBUTE_CYCLIC && any(2) ? 1 + any(2) : MPI_DISTRIBUTE_DFLT_DARG;
        MPI_Type_create_darray(2, any(2), 2, sizes, kind, arg, processes,
                               any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
        break;
    }
    default:
        MPI_Type_create_resized(child, ascending ? 0 : any(9) - 4, lb + extent + any(20), &type);
        break;
    }
    return type;
}

static int fits(MPI_Datatype type, int count)
{
    MPI_Aint lb, extent, true_lb, true_extent, last;
    int size;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    last = (count - 1) * extent;
    return size < 3000 && true_lb > -4000 && true_lb + true_extent < 8000 && last > -4000 &&
           last < 8000;
}

static void dump(MPI_Datatype type, int depth)
{
    int i, a, d, combiner, ints[64];
    MPI_Aint aints[64];
    MPI_Datatype types[64];
    MPI_Type_get_envelope(type, &i, &a, &d, &combiner);
    char name[MPI_MAX_OBJECT_NAME];
    int length, size;
    MPI_Type_get_name(type, name, &length);
    MPI_Type_size(type, &size);
    fprintf(stderr, "%*scombiner %d %s of %d bytes", 2 * depth, "", combiner, name, size);
    if (i > 60 || a > 60 || d > 60 || d == 0) {
        fprintf(stderr, "\n");
        return;
    }
    MPI_Type_get_contents(type, i, a, d, ints, aints, types);
    for (int k = 0; k < i; k++)
        fprintf(stderr, " %d", ints[k]);
    for (int k = 0; k < a; k++)
        fprintf(stderr, " @%ld", (long)aints[k]);
    fprintf(stderr, "\n");
    dump(types[0], depth + 1);
}

/* Memory of this type to and from the file. */
static void memory(MPI_File file, MPI_Datatype type, int count)
{
    static char image[ROOM], other[ROOM], packed[ROOM], stored[ROOM];
    MPI_Status status;
    int position = 0, at = 0, before = check_errors, size;
    for (int i = 0; i < ROOM; i++)
        image[i] = (char)pattern(i);
    MPI_Type_size(type, &size);
    OK(MPI_Pack(image + ORIGIN, count, type, packed, ROOM, &position, MPI_COMM_SELF));
    OK(MPI_File_write_at(file, 0, image + ORIGIN, count, type, &status));
    COUNT(&status, MPI_BYTE, size * count);
    OK(MPI_File_read_at(file, 0, stored, size * count, MPI_BYTE, &status));
    /* MPICH 4.0's MPI_Pack and MPI_Unpack sometimes stop before the end. */
    for (int i = 0; i < size * count && position == size * count; i++)
        if (stored[i] != packed[i]) {
            CHECK(0, "byte %d of %d is %02x, MPI_Pack has %02x", i, size * count, stored[i] & 255,
                  packed[i] & 255);
            break;
        }
    memset(image, 0, ROOM);
    memset(other, 0, ROOM);
    for (int i = 0; i < size * count; i++)
        packed[i] = (char)(i % 251 + 1);
    OK(MPI_File_write_at(file, 0, packed, size * count, MPI_BYTE, &status));
    OK(MPI_Unpack(packed, size * count, &at, other + ORIGIN, count, type, MPI_COMM_SELF));
    OK(MPI_File_read_at(file, 0, image + ORIGIN, count, type, &status));
    COUNT(&status, MPI_BYTE, size * count);
    CHECK(at < size * count || memcmp(image, other, ROOM) == 0,
          "read into other places than MPI_Unpack");
    if (check_errors != before && check_errors < 20)
        dump(type, 0);
}

/* A view of this type. */
static void view(MPI_File file, const char *path, MPI_Datatype type, int count)
{
    static char image[ROOM], packed[ROOM];
    MPI_Status status;
    MPI_Offset end;
    int at = 0, before = check_errors, size;
    long length;
    unsigned char *bytes;
    MPI_Type_size(type, &size);
    memset(image, 0, ROOM);
    for (int i = 0; i < size * count; i++)
        packed[i] = (char)(i % 251 + 1);
    OK(MPI_Unpack(packed, size * count, &at, image + ORIGIN, count, type, MPI_COMM_SELF));
    OK(MPI_File_set_size(file, 0));
    if (at < size * count ||
        MPI_File_set_view(file, 16, MPI_BYTE, type, "native", MPI_INFO_NULL) != MPI_SUCCESS)
        return;
    OK(MPI_File_write_at(file, 0, packed, size * count, MPI_BYTE, &status));
    COUNT(&status, MPI_BYTE, size * count);
    OK(MPI_File_get_size(file, &end));
    bytes = check_slurp(path, &length);
    CHECK(length == end && length <= ROOM - ORIGIN, "the file has %ld bytes", length);
    for (long i = 16; i < length && i < ROOM - ORIGIN; i++)
        if (bytes[i] != (unsigned char)image[ORIGIN - 16 + i]) {
            CHECK(0, "file byte %ld is %d, not %d", i, bytes[i],
                  (unsigned char)image[ORIGIN - 16 + i]);
            break;
        }
    for (long i = length > 16 ? length : 16; i < ROOM - ORIGIN; i++)
        if (image[ORIGIN - 16 + i] != 0) {
            CHECK(0, "file byte %ld is missing", i);
            break;
        }
    free(bytes);
    if (check_errors != before && check_errors < 20)
        dump(type, 0);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
}

int main(int argc, char **argv)
{
    MPI_File file;
    char path[4096];
    int views = 0;
    check_init(&argc, &argv);
    snprintf(path, sizeof path, "%s.%d", argv[1], check_rank);
    state += 7919ULL * check_rank;
    /* Some libraries refuse some distributed arrays. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int i = 0; i < 50; i++)
        memory(file, named(i), 3);
    for (int i = 0; i < 600; i++) {
        int ascending = i % 2, count = 1 + any(3);
        MPI_Datatype type = grow(1 + any(3), ascending);
        if (type != MPI_DATATYPE_NULL && fits(type, count)) {
            MPI_Type_commit(&type);
            if (ascending) {
                view(file, path, type, count);
                views++;
            } else
                memory(file, type, count);
        }
    }
    CHECK(views > 100, "only %d views were tried", views);
    OK(MPI_File_close(&file));
    MPI_File_delete(path, MPI_INFO_NULL);
    return check_finish();
}
