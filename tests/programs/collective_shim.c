/* Counts the collective MPI calls that a library preloaded before this one makes; preloaded behind
 * it.
 *
 * That library calls MPI by the names that begin with PMPI, the program by the others: only the
 * library's calls come by here. Every process tells at its end, on standard error: `collectives N
 * messages M`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static long collectives, messages;

/* Each function has at most ten arguments, all of them integers or pointers; what is too much is
 * ignored. */
typedef int function(long, long, long, long, long, long, long, long, long, long);

#define COUNTED(counter, name)                                                                     \
    int name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {     \
        static function *real;                                                                     \
        __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);                                         \
        if (!real) real = (function *)dlsym(RTLD_NEXT, #name);                                     \
        return real(a, b, c, d, e, f, g, h, i, j);                                                 \
    }

COUNTED(collectives, PMPI_Allgather)
COUNTED(collectives, PMPI_Allgatherv)
COUNTED(collectives, PMPI_Allreduce)
COUNTED(collectives, PMPI_Alltoall)
COUNTED(collectives, PMPI_Alltoallv)
COUNTED(collectives, PMPI_Alltoallw)
COUNTED(collectives, PMPI_Barrier)
COUNTED(collectives, PMPI_Bcast)
COUNTED(collectives, PMPI_Comm_create)
COUNTED(collectives, PMPI_Comm_create_group)
COUNTED(collectives, PMPI_Comm_dup)
COUNTED(collectives, PMPI_Comm_split)
COUNTED(collectives, PMPI_Comm_split_type)
COUNTED(collectives, PMPI_Exscan)
COUNTED(collectives, PMPI_Gather)
COUNTED(collectives, PMPI_Gatherv)
COUNTED(collectives, PMPI_Iallreduce)
COUNTED(collectives, PMPI_Ibarrier)
COUNTED(collectives, PMPI_Ibcast)
COUNTED(collectives, PMPI_Reduce)
COUNTED(collectives, PMPI_Reduce_scatter)
COUNTED(collectives, PMPI_Scan)
COUNTED(collectives, PMPI_Scatter)
COUNTED(collectives, PMPI_Scatterv)
COUNTED(collectives, PMPI_Win_allocate)
COUNTED(messages, PMPI_Isend)
COUNTED(messages, PMPI_Issend)
COUNTED(messages, PMPI_Send)

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "collectives %ld messages %ld\n", collectives, messages);
}
