// Preloaded into the tests of MPIs that wait busily, natively and with aggio alike: a rank that has
// found nothing to do for a while gives up its core. Without it a token that goes round four ranks
// on two cores waits a whole time slice at every step. No call of MPI is touched.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

enum { PATIENCE = 50 };

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*progress)(void *);
    static __thread int idle;
    // By name of the library: Python loads MPI without making its symbols global.
    if (!progress)
        progress = (unsigned (*)(void *))dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD),
                                               "ucp_worker_progress");
    unsigned found = progress(worker);
    idle = found ? 0 : idle + 1;
    if (idle == PATIENCE) {
        idle = 0;
        sched_yield();
    }
    return found;
}
