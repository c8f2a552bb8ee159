// Lets the allocations of libaggio.so fail, and no others, while `allocations_fail(1)` is in force.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static volatile int failing;
static volatile long refused;
static char *from, *to;

static int find(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!strstr(info->dlpi_name, "libaggio"))
        return 0;
    for (int part = 0; part < info->dlpi_phnum; part++)
        if (info->dlpi_phdr[part].p_type == PT_LOAD && info->dlpi_phdr[part].p_flags & PF_X) {
            from = (char *)info->dlpi_addr + info->dlpi_phdr[part].p_vaddr;
            to = from + info->dlpi_phdr[part].p_memsz;
        }
    return 1;
}

// How many allocations have been refused so far.
long allocations_fail(int on)
{
    dl_iterate_phdr(find, NULL);
    failing = on;
    return refused;
}

static int fails(void *caller)
{
    if (!failing || (char *)caller < from || (char *)caller >= to)
        return 0;
    __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
void *aligned_alloc(size_t align, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
}
int posix_memalign(void **place, size_t align, size_t size)
{
    if (fails(__builtin_return_address(0)))
        return ENOMEM;
    *place = __libc_memalign(align, size);
    return *place ? 0 : ENOMEM;
}
