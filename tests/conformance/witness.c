/* Preloaded behind libaggio.so: counts the file calls that nevertheless reach the MPI library, by
 * name, and writes them to the file named in AGGIO_TEST_WITNESS when the process ends. Nothing is
 * counted in a correct run.
 *
 * Each entry keeps all argument registers, so one piece of assembly serves every signature. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALLS(X)                                                                                   \
    X(open)                                                                                        \
    X(delete) X(set_size) X(preallocate) X(set_view) X(sync) X(set_atomicity) X(read_at)           \
        X(read_at_all) X(write_at) X(write_at_all) X(iread_at) X(iwrite_at) X(iread_at_all)        \
            X(iwrite_at_all) X(read) X(read_all) X(write) X(write_all) X(iread) X(iwrite)          \
                X(iread_all) X(iwrite_all) X(read_shared) X(write_shared) X(iread_shared)          \
                    X(iwrite_shared) X(read_ordered) X(write_ordered) X(read_at_all_begin)         \
                        X(write_at_all_begin) X(read_all_begin) X(write_all_begin)                 \
                            X(read_ordered_begin) X(write_ordered_begin)

enum {
#define NUMBER(name) call_##name, pcall_##name,
    CALLS(NUMBER) count_of_calls
};

static const char *names[] = {
#define NAME(name) "MPI_File_" #name, "PMPI_File_" #name,
    CALLS(NAME)
};

static unsigned long counts[count_of_calls];

__attribute__((used)) static void *witness_next(long call)
{
    void *next = dlsym(RTLD_NEXT, names[call]);
    __atomic_add_fetch(&counts[call], 1, __ATOMIC_RELAXED);
    if (!next) {
        fprintf(stderr, "witness: no %s behind this library\n", names[call]);
        abort();
    }
    return next;
}

#define ENTRY(symbol, call)                                                              \
    __asm__(".globl " symbol "\n.type " symbol ",@function\n" symbol ":\n"                \
            "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8,%rsp\n" \
            "mov $" call ",%edi\ncall witness_next\nadd $8,%rsp\n"                        \
            "pop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%rax\n");

/* The assembler knows no enum, so entries count themselves in the order of the table. */
__asm__(".set witness_number, 0");
#define ENTRIES(name)                                        \
    ENTRY("MPI_File_" #name, "witness_number")               \
    __asm__(".set witness_number, witness_number + 1");      \
    ENTRY("PMPI_File_" #name, "witness_number")              \
    __asm__(".set witness_number, witness_number + 1");
CALLS(ENTRIES)

__attribute__((destructor)) static void witness_report(void)
{
    const char *base = getenv("AGGIO_TEST_WITNESS");
    char path[4096];
    FILE *stream = NULL;
    for (int call = 0; base && call < count_of_calls; call++) {
        if (counts[call] == 0)
            continue;
        if (!stream) {
            snprintf(path, sizeof path, "%s.%d", base, (int)getpid());
            stream = fopen(path, "a");
        }
        if (stream)
            fprintf(stream, "%lu %s\n", counts[call], names[call]);
    }
    if (stream)
        fclose(stream);
}
