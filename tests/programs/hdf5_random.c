/* Writes random HDF5 files, and beside each what HDF5 reads in it once it is closed.
 *
 * usage: hdf5_random FOLDER FIRST COUNT [latest]
 *        writes FOLDER/N.h5 and FOLDER/N.truth; "latest": only the newest formats of this HDF5
 *
 * Lines of the truth, with tabs between the fields, paths last: group, datatype, same, soft,
 * external; dataset with shape, limits, element (0: of any length), layout, filters; "chunk" with
 * its place in the dataset, stored bytes, filter mask and a checksum; "at" with stored bytes, mask
 * and an address; "values" with a checksum.
 */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANK = 4, MOST_KNOWN = 4096, MOST_LISTED = 64 };
#define NEWER_THAN(major, minor) \
    (H5_VERS_MAJOR > (major) || (H5_VERS_MAJOR == (major) && H5_VERS_MINOR >= (minor)))

static uint64_t state;
static FILE *truth;
static hsize_t user_block;
static const char *step = "";
/* With lengths of 4 bytes HDF5 1.10 does not find unlimited dimensions again, and 1.14 cannot make
 * heaps. */
static int narrow;

static void need(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "hdf5_random: %s %s failed\n", step, what);
    H5Eprint2(H5E_DEFAULT, stderr);
    exit(1);
}
#define CHECK(call) need((call) >= 0, #call)

static hid_t id(hid_t made)
{
    need(made >= 0, "an object");
    return made;
}

static uint64_t next(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/* One of 0 ... limit - 1. */
static unsigned pick(unsigned limit)
{
    return next() % limit;
}

static int percent(unsigned chance)
{
    return pick(100) < chance;
}

static uint64_t checksum(const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    uint64_t sum = 0xCBF29CE484222325;
    while (count--)
        sum = (sum ^ *byte++) * 0x100000001B3;
    return sum;
}

/* ---- what is written ---- */

struct kind {
    hid_t type;
    int values; /* Its elements are plain bytes, which may be compared. */
};

static struct kind some_type(hid_t file)
{
    hid_t plain[] = {H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I16LE, H5T_STD_I32BE, H5T_STD_I64LE,
                     H5T_STD_U32LE, H5T_IEEE_F32LE, H5T_IEEE_F64BE};
    hid_t type, inner;
    char name[32];
    hsize_t three = 3;
    switch (pick(12)) {
    case 0:
        type = id(H5Tcreate(H5T_COMPOUND, 12));
        CHECK(H5Tinsert(type, "a", 0, H5T_STD_I32LE));
        CHECK(H5Tinsert(type, "b", 4, H5T_IEEE_F64LE));
        return (struct kind){type, 1};
    case 1:
        type = id(H5Tcopy(H5T_C_S1));
        CHECK(H5Tset_size(type, 1 + pick(20)));
        return (struct kind){type, 1};
    case 2:
        return (struct kind){id(H5Tarray_create2(H5T_STD_I16BE, 1, &three)), 1};
    case 3:
        type = id(H5Tenum_create(H5T_STD_I8LE));
        for (signed char n = 0; n < 3; n++) {
            snprintf(name, sizeof name, "n%d", n);
            CHECK(H5Tenum_insert(type, name, &n));
        }
        return (struct kind){type, 1};
    case 4:
        type = id(H5Tcreate(H5T_OPAQUE, 1 + pick(9)));
        CHECK(H5Tset_tag(type, "tag"));
        return (struct kind){type, 1};
    case 5:
        inner = id(H5Tcopy(H5T_C_S1));
        CHECK(H5Tset_size(inner, H5T_VARIABLE));
        return (struct kind){inner, 0};
    case 6:
        type = id(H5Tcopy(plain[pick(8)]));
        snprintf(name, sizeof name, "/t%u", pick(1000000));
        if (H5Lexists(file, name, H5P_DEFAULT) == 0)
            CHECK(H5Tcommit2(file, name, type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        return (struct kind){type, 1};
    default:
        return (struct kind){id(H5Tcopy(plain[pick(8)])), 1};
    }
}

static void some_attributes(hid_t object)
{
    unsigned count = (unsigned[]){0, 0, 0, 1, 3, 20}[pick(6)];
    char name[64];
    for (unsigned n = 0; n < count; n++) {
        hsize_t length = (hsize_t[]){1, 3, 200}[pick(3)];
        hid_t space = percent(20) ? id(H5Screate(H5S_SCALAR)) : id(H5Screate_simple(1, &length, 0));
        int values[200];
        for (unsigned at = 0; at < 200; at++)
            values[at] = next();
        snprintf(name, sizeof name, "attribute %u%.*s", n, pick(30),
                 "a name that is somewhat longer than it need be");
        hid_t attribute = id(H5Acreate2(object, name, H5T_NATIVE_INT, space, H5P_DEFAULT,
                                        H5P_DEFAULT));
        if (percent(90))
            CHECK(H5Awrite(attribute, H5T_NATIVE_INT, values));
        H5Aclose(attribute);
        H5Sclose(space);
        if (percent(10))
            CHECK(H5Adelete(object, name));
    }
}

struct shape {
    int rank;
    hsize_t now[MOST_RANK], most[MOST_RANK], chunk[MOST_RANK];
    int chunked;
    /* Chunks at the edge have no filters. HDF5 1.10 loses count of them when a shape changes. */
    int raw_edges;
};

static struct shape some_shape(void)
{
    static const unsigned lengths[] = {1, 300, 40, 12, 6};
    struct shape s = {.rank = (int[]){0, 1, 1, 1, 2, 2, 2, 3, 3, 4}[pick(10)]};
    s.chunked = s.rank > 0 && percent(85);
    unsigned grows = pick(5), free = s.rank ? pick(s.rank) : 0, room = pick(2) * 9;
    for (int d = 0; d < s.rank; d++) {
        s.now[d] = 1 + pick(lengths[s.rank]);
        s.most[d] = s.now[d];
        if (s.chunked && grows == 1)
            s.most[d] += pick(50);
        if (s.chunked && grows >= 3)
            s.most[d] += room;
        if (s.chunked && !narrow && (grows == 2 || (grows >= 3 && (unsigned)d == free)))
            s.most[d] = H5S_UNLIMITED;
    }
    unsigned size = pick(4);
    for (int d = 0; d < s.rank; d++) {
        hsize_t whole = s.now[d];
        s.chunk[d] = size == 0 ? whole : size == 1 ? 1 : 1 + pick(whole < 6 ? whole : 6);
    }
    /* One page of an array has 1024 elements. */
    if (s.chunked && s.rank == 1 && percent(4)) {
        s.now[0] = 1100 + pick(3000);
        s.most[0] = percent(50) && !narrow ? H5S_UNLIMITED : s.now[0] + 500;
        s.chunk[0] = 1;
    }
    return s;
}

static hid_t some_layout(struct shape *s, hid_t type, int *undefined)
{
    hid_t plist = id(H5Pcreate(H5P_DATASET_CREATE));
    hsize_t bytes = H5Tget_size(type);
    for (int d = 0; d < s->rank; d++)
        bytes *= s->now[d];
    if (s->chunked) {
        CHECK(H5Pset_chunk(plist, s->rank, s->chunk));
        if (percent(35) && !H5Tis_variable_str(type))
            CHECK(H5Pset_shuffle(plist));
        if (percent(35) && !H5Tis_variable_str(type))
            CHECK(H5Pset_deflate(plist, pick(10)));
        if (percent(30) && !H5Tis_variable_str(type))
            CHECK(H5Pset_fletcher32(plist));
        if (percent(30) && !H5Tis_variable_str(type))
            CHECK(H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY));
        s->raw_edges = percent(20);
        if (s->raw_edges)
            CHECK(H5Pset_chunk_opts(plist, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS));
    } else if (bytes < 4000 && percent(40)) {
        CHECK(H5Pset_layout(plist, H5D_COMPACT));
    } else if (percent(30)) {
        CHECK(H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY));
    }
    if (percent(30)) {
        unsigned char value[64];
        for (unsigned at = 0; at < sizeof value; at++)
            value[at] = 1 + pick(100);
        if (!H5Tis_variable_str(type))
            CHECK(H5Pset_fill_value(plist, type, value));
    } else if (percent(10) && !H5Tis_variable_str(type)) {
        CHECK(H5Pset_fill_value(plist, type, NULL));
        CHECK(H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER));
        *undefined = 1;
    }
    if (percent(20))
        CHECK(H5Pset_attr_phase_change(plist, 4, 2));
    return plist;
}

/* Elements of a selection, or texts if their length varies. */
static void *some_values(hid_t type, hssize_t count)
{
    size_t size = H5Tget_size(type);
    unsigned char *values = malloc(count * size + 1);
    static char *texts[] = {"", "one", "another text"};
    if (H5Tis_variable_str(type))
        for (hssize_t n = 0; n < count; n++)
            ((char **)values)[n] = texts[pick(3)];
    else
        for (size_t n = 0; n < count * size; n++)
            values[n] = percent(50) ? 0 : next();
    return values;
}

static void write_part(hid_t set, hid_t type, int rank)
{
    hid_t space = id(H5Dget_space(set));
    hsize_t shape[MOST_RANK], start[MOST_RANK], stride[MOST_RANK], count[MOST_RANK];
    H5Sget_simple_extent_dims(space, shape, NULL);
    if (rank && percent(60)) {
        for (int d = 0; d < rank; d++) {
            start[d] = pick(shape[d]);
            stride[d] = 1 + pick(3);
            count[d] = 1 + pick((shape[d] - start[d] + stride[d] - 1) / stride[d]);
        }
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    } else if (rank && percent(20)) {
        hsize_t points[8 * MOST_RANK];
        for (int n = 0; n < 8; n++)
            for (int d = 0; d < rank; d++)
                points[n * rank + d] = pick(shape[d]);
        CHECK(H5Sselect_elements(space, H5S_SELECT_SET, 8, points));
    }
    hssize_t all = H5Sget_select_npoints(space);
    hsize_t elements = all;
    hid_t memory = id(H5Screate_simple(1, &elements, NULL));
    void *values = some_values(type, all);
    if (all)
        CHECK(H5Dwrite(set, type, memory, space, H5P_DEFAULT, values));
    free(values);
    H5Sclose(memory);
    H5Sclose(space);
}

/* A chunk as it is stored, which some filters were not applied to. */
static void write_chunk(hid_t set, const struct shape *s, size_t element)
{
    hid_t space = id(H5Dget_space(set)), plist = id(H5Dget_create_plist(set));
    hsize_t shape[MOST_RANK], offset[MOST_RANK];
    H5Sget_simple_extent_dims(space, shape, NULL);
    size_t bytes = element;
    for (int d = 0; d < s->rank; d++) {
        offset[d] = pick(shape[d]) / s->chunk[d] * s->chunk[d];
        bytes *= s->chunk[d];
    }
    int filters = H5Pget_nfilters(plist);
    unsigned char *values = malloc(bytes);
    for (size_t at = 0; at < bytes; at++)
        values[at] = next();
    CHECK(H5Dwrite_chunk(set, H5P_DEFAULT, (1u << filters) - 1, offset, bytes, values));
    free(values);
    H5Pclose(plist);
    H5Sclose(space);
}

static void fill_in(hid_t set, hid_t type, struct shape *s, int values)
{
    unsigned steps = (unsigned[]){0, 1, 1, 2, 4}[pick(5)];
    for (unsigned n = 0; n < steps; n++) {
        if (n && s->chunked && !s->raw_edges && percent(50)) {
            hsize_t shape[MOST_RANK];
            for (int d = 0; d < s->rank; d++) {
                hsize_t most = s->most[d] == H5S_UNLIMITED ? 60 : s->most[d];
                most = most < s->now[d] + 30 ? most : s->now[d] + 30;
                shape[d] = s->rank > 2 && most > 15 ? 1 + pick(15) : 1 + pick(most);
            }
            CHECK(H5Dset_extent(set, shape));
        }
        write_part(set, type, s->rank);
        /* At the end: HDF5 1.10 forgets the mask when it reads such a chunk to change it. */
        if (n + 1 == steps && s->chunked && !s->raw_edges && values && percent(20))
            write_chunk(set, s, H5Tget_size(type));
        if (percent(10))
            CHECK(H5Fflush(set, H5F_SCOPE_LOCAL));
    }
}

static void make_dataset(hid_t file, hid_t group, const char *name)
{
    struct kind kind = some_type(file);
    struct shape s = some_shape();
    int undefined = 0;
    hid_t plist = some_layout(&s, kind.type, &undefined);
    hid_t space;
    if (s.rank == 0)
        space = id(H5Screate(percent(80) || H5Pget_layout(plist) == H5D_COMPACT ? H5S_SCALAR
                                                                                  : H5S_NULL));
    else
        space = id(H5Screate_simple(s.rank, s.now, s.most));
    hid_t set = id(H5Dcreate2(group, name, kind.type, space, H5P_DEFAULT, plist, H5P_DEFAULT));
    if (H5Sget_simple_extent_type(space) != H5S_NULL)
        fill_in(set, kind.type, &s, kind.values);
    some_attributes(set);
    if (undefined) {
        hid_t scalar = id(H5Screate(H5S_SCALAR));
        hid_t mark = id(H5Acreate2(set, "undefined", H5T_NATIVE_INT, scalar, H5P_DEFAULT,
                                   H5P_DEFAULT));
        H5Aclose(mark);
        H5Sclose(scalar);
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(plist);
    H5Tclose(kind.type);
}

static hid_t some_group_plist(void)
{
    hid_t plist = id(H5Pcreate(H5P_GROUP_CREATE));
    if (percent(30))
        CHECK(H5Pset_link_creation_order(
            plist, H5P_CRT_ORDER_TRACKED | (percent(50) ? H5P_CRT_ORDER_INDEXED : 0)));
    if (percent(30))
        CHECK(H5Pset_link_phase_change(plist, 3, 1));
    if (percent(20))
        CHECK(H5Pset_est_link_info(plist, 20, 30));
    if (percent(20))
        CHECK(H5Pset_attr_phase_change(plist, 2, 1));
    return plist;
}

static void make_group(hid_t file, hid_t group, int level)
{
    char name[128];
    hid_t made, plist;
    for (unsigned n = (unsigned[]){0, 1, 2, 5}[pick(4)]; n--;) {
        snprintf(name, sizeof name, "d%u", n);
        make_dataset(file, group, name);
    }
    for (unsigned n = (unsigned[]){0, 0, 2, 20, percent(10) ? 600 : 60}[pick(5)]; n--;) {
        snprintf(name, sizeof name, "link-%.*s-%u", pick(40),
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", n);
        switch (pick(4)) {
        case 0: CHECK(H5Lcreate_soft("/nowhere", group, name, H5P_DEFAULT, H5P_DEFAULT)); break;
        case 1:
            CHECK(H5Lcreate_external("other.h5", "/there", group, name, H5P_DEFAULT, H5P_DEFAULT));
            break;
        case 2:
            CHECK(H5Lcreate_hard(file, "/", group, name, H5P_DEFAULT, H5P_DEFAULT));
            break;
        default:
            plist = some_group_plist();
            made = id(H5Gcreate2(group, name, H5P_DEFAULT, plist, H5P_DEFAULT));
            H5Pclose(plist);
            H5Gclose(made);
        }
        if (percent(10))
            CHECK(H5Ldelete(group, name, H5P_DEFAULT));
    }
    some_attributes(group);
    for (unsigned n = level < 3 ? pick(3) : 0; n--;) {
        snprintf(name, sizeof name, "g%u", n);
        plist = some_group_plist();
        made = id(H5Gcreate2(group, name, H5P_DEFAULT, plist, H5P_DEFAULT));
        H5Pclose(plist);
        make_group(file, made, level + 1);
        H5Gclose(made);
    }
}

static void make(const char *path, int latest)
{
    hid_t create = id(H5Pcreate(H5P_FILE_CREATE)), access = id(H5Pcreate(H5P_FILE_ACCESS));
    unsigned low = latest ? H5F_LIBVER_LATEST : pick(H5F_LIBVER_LATEST + 1);
    CHECK(H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST));
    hsize_t user = (hsize_t[]){0, 0, 0, 512, 1024, 4096}[pick(6)];
    CHECK(H5Pset_userblock(create, user));
    narrow = percent(10) && !NEWER_THAN(1, 14);
    if (narrow || percent(10))
        CHECK(H5Pset_sizes(create, percent(50) ? 4 : 8, narrow ? 4 : 8));
    if (percent(20))
        CHECK(H5Pset_sym_k(create, 2 + pick(20), 1 + pick(8)));
    if (percent(20))
        CHECK(H5Pset_istore_k(create, 2 + pick(40)));
    if (percent(20))
        CHECK(H5Pset_file_space_strategy(create, pick(user ? 1 : 4), percent(50), 1));
    if (percent(20))
        CHECK(H5Pset_alignment(access, 1, 64));
    hid_t file = id(H5Fcreate(path, H5F_ACC_TRUNC, create, access));
    make_group(file, file, 0);
    /* A file that was opened again has free space, and headers that go on elsewhere. */
    if (percent(30)) {
        CHECK(H5Fclose(file));
        file = id(H5Fopen(path, H5F_ACC_RDWR, access));
        hid_t plist = some_group_plist();
        hid_t more = id(H5Gcreate2(file, "more", H5P_DEFAULT, plist, H5P_DEFAULT));
        make_group(file, more, 1);
        H5Gclose(more);
        H5Pclose(plist);
    }
    CHECK(H5Fclose(file));
    H5Pclose(create);
    H5Pclose(access);
}

/* ---- what is read ---- */

static struct {
    haddr_t address;
    char *path;
} known[MOST_KNOWN];
static int known_count;

static const char *list(int rank, const hsize_t *numbers)
{
    static char text[2][128];
    static int turn;
    char *to = text[turn ^= 1];
    int used = snprintf(to, 128, "(");
    for (int d = 0; d < rank; d++)
        used += snprintf(to + used, 128 - used, d ? ",%lld" : "%lld", (long long)numbers[d]);
    snprintf(to + used, 128 - used, ")");
    return to;
}

/* Without offsets: those of arrays that grow along another dimension than the first are wrong. */
static int tell_address(const hsize_t *offset, unsigned mask, haddr_t address, hsize_t size,
                        void *user)
{
    fprintf(truth, "at\t%llu\t%u\t%llu\n", (unsigned long long)size, mask,
            (unsigned long long)address);
    (void)offset, (void)user;
    return 0;
}

static void tell_addresses(hid_t set)
{
#if NEWER_THAN(1, 14)
    CHECK(H5Dchunk_iter(set, H5P_DEFAULT, tell_address, NULL));
#else
    hsize_t count = 0, size, offset[MOST_RANK];
    hid_t space = id(H5Dget_space(set));
    CHECK(H5Dget_num_chunks(set, space, &count));
    for (hsize_t n = 0; n < count && count <= MOST_LISTED; n++) {
        haddr_t address;
        unsigned mask;
        CHECK(H5Dget_chunk_info(set, space, n, offset, &mask, &address, &size));
        /* 1.10 counts from the superblock. */
        tell_address(offset, mask, address + user_block, size, NULL);
    }
    H5Sclose(space);
#endif
}

/* A chunk's bytes as they are stored; none if HDF5 does not find it: 1.14 tells sizes of chunks
 * that are not there. */
static void *read_chunk(hid_t set, const hsize_t *offset, hsize_t most, hsize_t *size,
                        uint32_t *mask)
{
    if (H5Dget_chunk_storage_size(set, offset, size) < 0 || *size == 0 || *size > most)
        return NULL;
    void *bytes = malloc(*size + most);
#if NEWER_THAN(2, 0)
    size_t room = *size + most;
    if (H5Dread_chunk2(set, H5P_DEFAULT, offset, mask, bytes, &room) >= 0)
        return bytes;
#else
    if (H5Dread_chunk(set, H5P_DEFAULT, offset, mask, bytes) >= 0)
        return bytes;
#endif
    free(bytes);
    return NULL;
}

static void tell_chunks(hid_t set, hid_t plist, hid_t space)
{
    hsize_t shape[MOST_RANK], of[MOST_RANK], offset[MOST_RANK] = {0}, size;
    int rank = H5Sget_simple_extent_dims(space, shape, NULL);
    H5Pget_chunk(plist, MOST_RANK, of);
    /* Filters add little to what they cannot make smaller. */
    hsize_t most = 64 * 2;
    for (int d = 0; d < rank; d++)
        most *= of[d] * (shape[d] > 0);
    if (most == 0)
        return;
    for (int d = 0; d >= 0;) {
        uint32_t mask = 0;
        void *bytes = read_chunk(set, offset, most, &size, &mask);
        if (bytes)
            fprintf(truth, "chunk\t%s\t%llu\t%u\t%016" PRIx64 "\n", list(rank, offset),
                    (unsigned long long)size, mask, checksum(bytes, size));
        free(bytes);
        for (d = rank - 1; d >= 0 && (offset[d] += of[d]) >= shape[d]; d--)
            offset[d] = 0;
    }
    tell_addresses(set);
}

static void tell_values(hid_t set, hid_t type, hid_t space)
{
    hssize_t count = H5Sget_simple_extent_npoints(space);
    size_t bytes = count * H5Tget_size(type);
    if (H5Tis_variable_str(type) || H5Aexists(set, "undefined") > 0)
        return;
    unsigned char *values = calloc(bytes + 1, 1);
    if (count > 0)
        CHECK(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    fprintf(truth, "values\t%016" PRIx64 "\n", checksum(values, bytes));
    free(values);
}

static void tell_dataset(hid_t set, const char *path, unsigned long long attributes)
{
    hid_t space = id(H5Dget_space(set)), plist = id(H5Dget_create_plist(set));
    hid_t type = id(H5Dget_type(set));
    hsize_t shape[MOST_RANK], most[MOST_RANK], of[MOST_RANK];
    int rank = H5Sget_simple_extent_dims(space, shape, most);
    int null = H5Sget_simple_extent_type(space) == H5S_NULL;
    H5D_layout_t layout = H5Pget_layout(plist);
    fprintf(truth, "dataset\t%s\t%llu\t%s\t%s\t%zu\t", path, attributes,
            null ? "null" : list(rank, shape), list(rank, most),
            H5Tis_variable_str(type) ? 0 : H5Tget_size(type));
    H5D_chunk_index_t index = 0;
    if (layout == H5D_CHUNKED) {
        H5Pget_chunk(plist, MOST_RANK, of);
        CHECK(H5Dget_chunk_index_type(set, &index));
        fprintf(truth, "chunked %s %d\t", list(rank, of), (int)index);
    } else if (layout == H5D_COMPACT) {
        fprintf(truth, "compact %llu\t", (unsigned long long)H5Dget_storage_size(set));
    } else {
        /* 1.10 adds the user block to the address of nothing, too. */
        haddr_t address = H5Dget_offset(set);
        if (address + 1 == user_block)
            address = HADDR_UNDEF;
        fprintf(truth, "contiguous %lld\t", (long long)address);
    }
    for (int n = 0; n < H5Pget_nfilters(plist); n++) {
        unsigned flags;
        size_t none = 0;
        fprintf(truth, "%d ", (int)H5Pget_filter2(plist, n, &flags, &none, NULL, 0, NULL, NULL));
    }
    fprintf(truth, "\n");
    if (layout == H5D_CHUNKED)
        tell_chunks(set, plist, space);
    if (!null)
        tell_values(set, type, space);
    H5Tclose(type);
    H5Pclose(plist);
    H5Sclose(space);
}

static const char *first_path(hid_t object, const char *path, unsigned long long *attributes)
{
    H5O_info_t about;
    haddr_t address;
#if NEWER_THAN(1, 12)
    /* A token's first bytes are the address. */
    CHECK(H5Oget_info(object, &about, H5O_INFO_ALL));
    memcpy(&address, &about.token, sizeof address);
#else
    CHECK(H5Oget_info(object, &about));
    address = about.addr;
#endif
    *attributes = about.num_attrs;
    for (int n = 0; n < known_count; n++)
        if (known[n].address == address)
            return known[n].path;
    need(known_count < MOST_KNOWN, "room for objects");
    known[known_count].address = address;
    known[known_count++].path = strdup(path);
    return NULL;
}

static void tell_group(hid_t group, const char *path);

static herr_t tell_link(hid_t group, const char *name, const H5L_info_t *about, void *above)
{
    char path[1024], target[256];
    unsigned long long attributes;
    snprintf(path, sizeof path, "%s/%s", (char *)above, name);
    if (about->type != H5L_TYPE_HARD) {
        const char *file = "", *there = target;
        CHECK(H5Lget_val(group, name, target, sizeof target, H5P_DEFAULT));
        if (about->type == H5L_TYPE_EXTERNAL)
            CHECK(H5Lunpack_elink_val(target, about->u.val_size, NULL, &file, &there));
        fprintf(truth, "%s\t%s\t%s\t%s\n", *file ? "external" : "soft", path, there, file);
        return 0;
    }
    hid_t object = id(H5Oopen(group, name, H5P_DEFAULT));
    const char *first = first_path(object, path, &attributes);
    if (first)
        fprintf(truth, "same\t%s\t%s\n", path, first);
    else if (H5Iget_type(object) == H5I_DATASET)
        tell_dataset(object, path, attributes);
    else if (H5Iget_type(object) == H5I_DATATYPE)
        fprintf(truth, "datatype\t%s\t%llu\n", path, attributes);
    else {
        fprintf(truth, "group\t%s\t%llu\n", path, attributes);
        tell_group(object, path);
    }
    H5Oclose(object);
    return 0;
}

static void tell_group(hid_t group, const char *path)
{
    hsize_t from = 0;
    CHECK(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &from, tell_link, (void *)path));
}

static void tell(const char *path)
{
    unsigned long long attributes;
    hid_t file = id(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    hid_t plist = id(H5Fget_create_plist(file));
    CHECK(H5Pget_userblock(plist, &user_block));
    fprintf(truth, "user\t%llu\n", (unsigned long long)user_block);
    known_count = 0;
    first_path(file, "/", &attributes);
    fprintf(truth, "group\t/\t%llu\n", attributes);
    tell_group(file, "");
    for (int n = 0; n < known_count; n++)
        free(known[n].path);
    H5Pclose(plist);
    CHECK(H5Fclose(file));
}

/* Writes and reads one file, and ends the process. */
static void one(const char *folder, long number, int latest)
{
    static char path[4096], beside[4096];
    snprintf(path, sizeof path, "%s/%ld.h5", folder, number);
    snprintf(beside, sizeof beside, "%s/%ld.truth", folder, number);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    step = path;
    state = (uint64_t)number * 0x2545F4914F6CDD1D;
    make(path, latest);
    truth = fopen(beside, "w");
    need(truth != NULL, beside);
    tell(path);
    need(fclose(truth) == 0, beside);
    exit(0);
}

int main(int count, char **arguments)
{
    need(count >= 4, "usage: hdf5_random FOLDER FIRST COUNT [latest]");
    long first = atol(arguments[2]), end = first + atol(arguments[3]);
    for (long number = first; number < end; number++) {
        /* HDF5 has errors of its own: a file that it fails to write or read gets no truth. */
        int status = 0;
        pid_t child = fork();
        need(child >= 0, "fork");
        if (child == 0)
            one(arguments[1], number, count > 4);
        need(waitpid(child, &status, 0) == child, "waitpid");
        if (status != 0) {
            fprintf(stderr, "hdf5_random: file %ld: %d\n", number, status);
            char path[4096];
            snprintf(path, sizeof path, "%s/%ld.truth", arguments[1], number);
            unlink(path);
        }
    }
    return 0;
}
