/* A stand-in for the drivers' libraries of graphics processors. "Device memory" is a memory file
 * that is mapped twice: at the address that the program gets, the processor may not touch it; the
 * driver copies at the other one. What a program cannot ask real drivers is asked by the functions
 * of gpu.h.
 *
 * -DCUDA, -DHIP=5, -DHIP=6 and -DLEVEL_ZERO choose whose functions are exported. */
#define _GNU_SOURCE
#include "gpu.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

struct allocation {
    char *device, *hidden;
    size_t size;
    enum gpu_kind kind;
};

static struct allocation allocations[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_counts counts;
static int started, failing, closed;

static struct allocation *allocation_of(const void *address)
{
    const char *at = address;
    for (size_t i = 0; i < sizeof allocations / sizeof *allocations; i++)
        if (allocations[i].device && at >= allocations[i].device &&
            at < allocations[i].device + allocations[i].size)
            return &allocations[i];
    return NULL;
}

void *gpu_allocate(size_t size, enum gpu_kind kind)
{
    struct allocation new = {.size = (size + PAGE - 1) / PAGE * PAGE, .kind = kind};
    int file = memfd_create("gpu", MFD_CLOEXEC);
    int access = kind == GPU_MANAGED || kind == GPU_PINNED ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (file < 0 || ftruncate(file, new.size) != 0)
        abort();
    new.device = mmap(NULL, new.size, access, MAP_SHARED, file, 0);
    new.hidden = mmap(NULL, new.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (new.device == MAP_FAILED || new.hidden == MAP_FAILED)
        abort();
    pthread_mutex_lock(&lock);
    started = 1;
    for (size_t i = 0;; i++) {
        if (i == sizeof allocations / sizeof *allocations)
            abort();
        if (!allocations[i].device) {
            allocations[i] = new;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return new.device;
}

void gpu_free(void *address)
{
    pthread_mutex_lock(&lock);
    struct allocation *found = allocation_of(address);
    munmap(found->device, found->size);
    munmap(found->hidden, found->size);
    memset(found, 0, sizeof *found);
    pthread_mutex_unlock(&lock);
}

void gpu_put(void *device, const void *host, size_t size)
{
    struct allocation *found = allocation_of(device);
    memcpy(found->hidden + ((char *)device - found->device), host, size);
}

void gpu_get(void *host, const void *device, size_t size)
{
    struct allocation *found = allocation_of(device);
    memcpy(host, found->hidden + ((const char *)device - found->device), size);
}

void gpu_fail(int copies_before)
{
    failing = copies_before + 1;
}

int gpu_copies_rows(void)
{
#ifdef LEVEL_ZERO
    return 0;
#else
    return 1;
#endif
}

void gpu_close(void)
{
    closed = 1;
}

struct gpu_counts gpu_counts(void)
{
    struct gpu_counts now = counts;
    memset(&counts, 0, sizeof counts);
    return now;
}

/* One copy of the driver; 0 or an error code. */
static int copy(void *to, const void *from, size_t size, int to_device)
{
    pthread_mutex_lock(&lock);
    const void *address = to_device ? to : from;
    struct allocation *found = allocation_of(address);
    struct allocation *other = allocation_of(to_device ? from : to);
    int code = 0;
    if (!found || found->kind == GPU_MANAGED || found->kind == GPU_PINNED || other ||
        (const char *)address + size > found->device + found->size)
        code = 1;
    else if (failing && --failing == 0)
        code = 700;
    else if (closed)
        code = 4;
    if (code == 0) {
        char *hidden = found->hidden + ((const char *)address - found->device);
        memcpy(to_device ? hidden : to, to_device ? from : hidden, size);
        counts.copies++;
        counts.bytes += size;
        if (size > counts.longest)
            counts.longest = size;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* Rows at one time, which count as one copy, unless they are many. */
#if defined CUDA || defined HIP
static int copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
                     size_t height, int to_device)
{
    struct gpu_counts before = counts;
    if (to_pitch < width || from_pitch < width || height > 600)
        return 1;
    for (size_t row = 0; row < height; row++) {
        int code = copy(to + row * to_pitch, from + row * from_pitch, width, to_device);
        if (code) {
            counts = before;
            return code;
        }
    }
    counts.copies = before.copies + 1;
    return 0;
}
#endif

#ifdef CUDA
/* The one device has a main context, and the memory that gpu_allocate gives belongs to another. */
static int main_context, context;
static __thread void *stack[8];
static __thread int depth;

static void *current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

int gpu_state(void)
{
    return depth;
}

int cuPointerGetAttributes(unsigned count, const int *names, void **values, uint64_t pointer)
{
    if (!started || closed)
        return started ? 4 : 3;
    struct allocation *found = allocation_of((void *)pointer);
    counts.questions++;
    for (unsigned i = 0; i < count; i++) {
        switch (names[i]) {
        case 1:
            *(void **)values[i] = found && found->kind != GPU_POOL ? &context : NULL;
            break;
        case 2:
            *(unsigned *)values[i] = !found ? 0 : found->kind == GPU_PINNED ? 1 : 2;
            break;
        case 8:
            *(unsigned *)values[i] = found && found->kind == GPU_MANAGED;
            break;
        case 9:
            *(int *)values[i] = found ? 0 : -2;
            break;
        default:
            return 1;
        }
    }
    return 0;
}

int cuCtxGetCurrent(void **out)
{
    *out = current();
    return 0;
}

int cuCtxPushCurrent_v2(void *new)
{
    if (depth == 8)
        return 1;
    stack[depth++] = new;
    return 0;
}

int cuCtxPopCurrent_v2(void **out)
{
    if (!depth)
        return 201;
    *out = stack[--depth];
    return 0;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    *out = &main_context;
    return device != 0;
}

int cuDevicePrimaryCtxRelease(int device)
{
    return device != 0;
}

static int checked_copy(void *to, const void *from, size_t size, int to_device)
{
    struct allocation *found = allocation_of(to_device ? to : from);
    int fits = found && found->kind == GPU_POOL ? current() != NULL : current() == &context;
    return fits ? copy(to, from, size, to_device) : 201;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
    return checked_copy(to, (void *)from, size, 0);
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
    return checked_copy((void *)to, from, size, 1);
}

struct side {
    size_t x, y;
    int kind;
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
};

struct copy_2d {
    struct side from, to;
    size_t width, height;
};

int cuMemcpy2DUnaligned_v2(const struct copy_2d *c)
{
    int to_device = c->to.kind == 2;
    char *to = to_device ? (char *)c->to.device : c->to.host;
    char *from = to_device ? c->from.host : (char *)c->from.device;
    struct allocation *found = allocation_of(to_device ? to : from);
    int fits = found && found->kind == GPU_POOL ? current() != NULL : current() == &context;
    if (!fits || c->from.kind + c->to.kind != 3 || c->from.x || c->to.y)
        return 201;
    return copy_rows(to, c->to.pitch, from, c->from.pitch, c->width, c->height, to_device);
}

int cuMemHostRegister_v2(void *start, size_t size, unsigned flags)
{
    (void)start, (void)flags;
    counts.pinned += size;
    return current() ? 0 : 201;
}
#endif

#ifdef HIP
/* Memory is on device 1; device 0 is the thread's own at first. */
static __thread int last_error, own_device;

struct attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

int gpu_state(void)
{
    return last_error + own_device;
}

int hipRuntimeGetVersion(int *version)
{
    *version = HIP * 10000000 + 42131;
    return 0;
}

int hipPointerGetAttributes(struct attributes *out, const void *pointer)
{
    const int host = HIP < 6 ? 0 : 1;
    struct allocation *found = allocation_of(pointer);
    counts.questions++;
    if (closed)
        return last_error = 4;
    if (!found && HIP < 6)
        return last_error = 1;
    memset(out, 0, sizeof *out);
    out->device = found ? 1 : -2;
    out->is_managed = found && found->kind == GPU_MANAGED;
    out->type = !found ? 0 : found->kind == GPU_PINNED ? host : host + 1;
    return 0;
}

int hipPeekAtLastError(void)
{
    return last_error;
}

int hipGetLastError(void)
{
    int was = last_error;
    last_error = 0;
    return was;
}

int hipGetDevice(int *device)
{
    *device = own_device;
    return 0;
}

int hipSetDevice(int device)
{
    own_device = device;
    return 0;
}

int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
    return own_device == 1 ? copy(to, from, size, kind == 1) : 1;
}

int hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                size_t height, int kind)
{
    if (own_device != 1)
        return last_error = 1;
    return last_error = copy_rows(to, to_pitch, from, from_pitch, width, height, kind == 1);
}

int hipHostRegister(void *start, size_t size, unsigned flags)
{
    (void)start, (void)flags;
    counts.pinned += size;
    return 0;
}
#endif

#ifdef LEVEL_ZERO
struct properties {
    int structure;
    void *next;
    int type;
    uint64_t id, page_size;
};

static int driver, device, context, list;

int gpu_state(void)
{
    return 0;
}

int zeDriverGet(unsigned *count, void **out)
{
    if (!started)
        return 0x78000001;
    if (*count)
        *out = &driver;
    *count = 1;
    return 0;
}

int zeContextCreate(void *of, const void *description, void **out)
{
    *out = &context;
    return of != &driver || *(const int *)description != 0xd;
}

int zeMemGetAllocProperties(void *in, const void *pointer, struct properties *out, void **where)
{
    struct allocation *found = allocation_of(pointer);
    counts.questions++;
    if (closed || in != &context || out->structure != 0x17)
        return closed ? 0x78000001 : 1;
    out->type = !found ? 0 : found->kind == GPU_MANAGED ? 3 : found->kind == GPU_PINNED ? 1 : 2;
    *where = found ? &device : NULL;
    return 0;
}

int zeCommandListCreateImmediate(void *in, void *on, const void *description, void **out)
{
    *out = &list;
    return in != &context || on != &device || *(const int *)description != 0xe;
}

int zeCommandListAppendMemoryCopy(void *to_list, void *to, const void *from, size_t size,
                                  void *event, unsigned count, void *events)
{
    if (to_list != &list || event || count || events)
        return 1;
    return copy(to, from, size, allocation_of(to) != NULL);
}
#endif
