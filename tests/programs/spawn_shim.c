// Lets the call of posix_spawn_file_actions_adddup2 that SPAWN_SHIM numbers, from 1 on, fail for
// want of memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>

int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new)
{
    static int calls;
    const char *nth = getenv("SPAWN_SHIM");
    if (nth && ++calls == atoi(nth))
        return ENOMEM;
    int (*next)(posix_spawn_file_actions_t *, int, int) =
        dlsym(RTLD_NEXT, "posix_spawn_file_actions_adddup2");
    return next ? next(actions, fd, new) : ENOSYS;
}
