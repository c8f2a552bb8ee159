/* Linked into the test programs for MPICH: a rank that waits yields its core, as ranks of Open MPI
 * do with `mpi_yield_when_idle`. MPICH has no such setting, and a rank that spins on one of two
 * cores keeps the rank that it waits for from running: a barrier of six takes 40 ms. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

/* Calls without progress before a rank yields. */
enum { SPINS = 10 };

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*next)(void *);
    static _Thread_local unsigned idle;
    if (!next) next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned done = next(worker);
    idle = done ? 0 : idle + 1;
    if (idle > SPINS) sched_yield();
    return done;
}
