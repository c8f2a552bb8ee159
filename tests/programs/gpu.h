/* What test programs ask the stand-in of a driver's library (gpu_driver.c). */
#ifndef GPU_H
#define GPU_H

#include <stddef.h>

enum gpu_kind {
    GPU_DEVICE,  /* only the device may access it */
    GPU_POOL,    /* the same, in no context */
    GPU_MANAGED, /* the processor may access it too */
    GPU_PINNED,  /* memory of the host that is registered with the driver */
};

/* What the driver did since the last question. */
struct gpu_counts {
    size_t copies, bytes, longest, pinned, questions;
};

void *gpu_allocate(size_t size, enum gpu_kind kind);
void gpu_free(void *address);
void gpu_put(void *device, const void *host, size_t size);
void gpu_get(void *host, const void *device, size_t size);
/* The next copy fails with code 700, or one after this number of others. */
void gpu_fail(int copies_before);
struct gpu_counts gpu_counts(void);
/* From now on every call of the driver fails, as at the end of a process. */
void gpu_close(void);
/* Whether it copies equal rows at once. */
int gpu_copies_rows(void);
/* Not 0 if the thread's state at the driver has changed. */
int gpu_state(void);

#endif
