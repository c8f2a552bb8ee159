/* Streams of the C library, narrow and wide, in every mode: streams DIRECTORY. Prints what it saw.
 * Without a directory: wide characters on the standard streams. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define SAY(...) (printf(__VA_ARGS__), fflush(stdout))

static FILE *opened(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);
    if (!file)
        SAY("fopen %s %s: %s\n", name, mode, strerror(errno));
    return file;
}

static void narrow(void)
{
    char line[100], *grown = NULL, buffer[64];
    size_t room = 0;
    FILE *file = opened("narrow", "w+");
    setvbuf(file, buffer, _IOFBF, sizeof buffer);
    for (int i = 0; i < 1000; i++)
        fprintf(file, "%d %s\n", i, i % 7 ? "word" : "seven");
    fputs("end", file), fputc('\n', file), putc('x', file);
    SAY("at %ld, flush %d, error %d\n", ftell(file), fflush(file), ferror(file));
    rewind(file);
    int number, got = fscanf(file, "%d %99s", &number, line);
    SAY("%d fields: %d %s\n", got, number, line);
    SAY("line %s",
        fgets(line, sizeof line, file) && fgets(line, sizeof line, file) ? line : "none\n");
    ungetc('!', file);
    SAY("%c%c, getline %zd\n", getc(file), getc(file), getline(&grown, &room, file));
    fseek(file, -5, SEEK_END);
    SAY("%zu bytes, end %d", fread(line, 1, sizeof line, file), feof(file) != 0);
    SAY(", at %lld\n", (long long)ftello(file));
    fpos_t position;
    fseeko(file, 10, SEEK_SET), fgetpos(file, &position), fwrite("OVER", 2, 2, file),
        fsetpos(file, &position);
    SAY("%c%c%c%c\n", fgetc(file), getc(file), getc_unlocked(file), fgetc_unlocked(file));
    SAY("fileno %d, truncate %d, close %d\n", fileno(file) > 2, ftruncate(fileno(file), 5000),
        fclose(file));
    file = opened("narrow", "a+");
    fprintf(file, "appended\n"), fseek(file, 0, SEEK_SET);
    SAY("first %s", fgets(line, sizeof line, file)), fputs("again\n", file), fclose(file);
    file = opened("narrow", "r+");
    fseek(file, 20, SEEK_SET), fputs("middle", file), fflush(file),
        SAY("write to it, then %d\n", fgetc(file)), fclose(file);
    file = opened("narrow", "r");
    SAY("writing what is read: %d, ", fputc('x', file)), SAY("error %d\n", ferror(file) != 0),
        clearerr(file), fclose(file);
    opened("narrow", "wx"), opened("none", "r"), free(grown);
    file = fdopen(open("fd", O_RDWR | O_CREAT, 0644), "r+");
    setlinebuf(file), fputs("by descriptor\n", file), dprintf(fileno(file), "printed %d\n", 5),
        fseek(file, 0, SEEK_SET);
    while (fgets(line, sizeof line, file))
        SAY("> %s", line);
    file = freopen("reopened", "w", file);
    SAY("reopened %d\n", file != NULL);
    if (file)
        fputs("new content\n", file), fclose(file);
}

static void formatted(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
}

static void wide(void)
{
    wchar_t line[100];
    FILE *file = opened("wide", "w+");
    SAY("orientation %d, ", fwide(file, 0));
    SAY("%d\n", fwide(file, 1) > 0);
    for (int i = 0; i < 500; i++)
        fwprintf(file, L"%d \u00e4\u20ac %ls %.2f\n", i, i % 3 ? L"word" : L"\u03b1\u03b2",
                 i * 0.25);
    SAY("fputws %d, ", fputws(L"stra\u00dfe\n", file) >= 0),
        SAY("fputwc %d\n", fputwc(L'\u20ac', file) == L'\u20ac');
    SAY("flush %d, error %d, at %ld\n", fflush(file), ferror(file), ftell(file));
    rewind(file);
    SAY("%ls", fgetws(line, 100, file)), SAY("%ls", fgetws(line, 100, file));
    SAY("%x %x ", fgetwc(file), getwc(file)), SAY("%x\n", ungetwc(L'\u00df', file)),
        SAY("%x %x\n", fgetwc(file), fgetwc(file));
    int number = 0, got = fwscanf(file, L" %99ls", line);
    SAY("%d fields %ls\n", got, line), got = fwscanf(file, L"%*s %d", &number),
                                       SAY("%d fields %d\n", got, number);
    long count = 0;
    while (fgetwc(file) != WEOF)
        count++;
    SAY("%ld more, end %d, error %d\n", count, feof(file) != 0, ferror(file)), fclose(file);
    file = opened("wide", "a");
    SAY("append %d\n", fputws(L"\u00fc", file) >= 0), fclose(file);
    file = opened("wide", "r");
    SAY("%zu bytes\n", (size_t)(fseek(file, 0, SEEK_END), ftell(file))), rewind(file),
        SAY("%x\n", fgetwc(file)), fclose(file);
    file = opened("bad", "w");
    fputs("ab\377cd", file), fclose(file), file = opened("bad", "r");
    SAY("%x %x ", fgetwc(file), fgetwc(file)), errno = 0, SAY("%d ", fgetwc(file) == WEOF),
                                               SAY("%s\n", strerror(errno)), fclose(file);
    file = opened("mixed", "w+,ccs=UTF-8");
    SAY("ccs %d\n", file && fputws(L"\u00e9", file) >= 0);
    if (file)
        fclose(file);
}

/* The standard streams, if they are for wide characters. */
static int standard(void)
{
    wchar_t word[20] = L"";
    int number = 0, got = wscanf(L"%d", &number);
    wint_t next = getwchar();
    got += wscanf(L"%19ls", word);
    wprintf(L"%d fields %d '%lc' %ls \u20ac %5.1f\n", got, number, next, word, 2.5);
    putwchar(L'\u00e4'), fputws(L"\u00f6\n", stdout);
    for (int i = 0; i < 3000; i++)
        wprintf(L"%d\n", i);
    return 0;
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    if (argc == 1)
        return standard();
    if (argc != 2 || chdir(argv[1]))
        return 2;
    narrow(), wide();
    FILE *file = opened("variable", "w");
    formatted(file, "%s %d\n", "arguments", 3), fclose(file), file = fopen("left", "w");
    fputs("never closed", file);
    return 0;
}
