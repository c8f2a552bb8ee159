# A small project: compiled, archived, linked, run, changed, made again.
umask 022
mkdir src
printf '#include "part.h"\n#include <stdio.h>\n' > src/main.c
printf 'int main(int n, char **a) {\n' >> src/main.c
printf '  printf("%%d %%s\\n", part(n), a[0]);\n  return n;\n}\n' >> src/main.c
printf '#include "part.h"\nint part(int n) { return n * FACTOR; }\n' > src/part.c
printf '#define FACTOR 3\nint part(int);\n' > src/part.h
printf 'CFLAGS = -O1 -MMD\nall: program\nprogram: src/main.o libpart.a\n' > Makefile
printf '\t$(CC) -o $@ src/main.o -L. -lpart\nlibpart.a: src/part.o\n' >> Makefile
printf '\t$(AR) Drc $@ $^\n-include src/*.d\n' >> Makefile
printf 'clean:\n\trm -f program libpart.a src/*.o src/*.d\n' >> Makefile
make CC=gcc; ./program a b; echo "status $?"; make; sed -i s/3/5/ src/part.h; sleep 0.02
make CC=gcc | wc -l; ./program; echo "status $?"
nm libpart.a | grep -c part; ar t libpart.a; size program | wc -l; strip program
test -x program && ./program x y z | cat; stat -c %a program src/main.c
printf '#!/bin/sh -e\necho a script: $0 $#\nfalse\necho never\n' > script; chmod 755 script
./script one two; echo "status $?"; chmod 644 script; ./script; echo "status $?"
printf '#!./program interpreted\n' > odd; chmod +x odd; ./odd; echo "status $?"
printf 'echo without a first line\n' > bare; chmod +x bare; ./bare; echo 'not a program' > no
chmod +x no; ./no 2> /dev/null; echo "status $?"
env -i ./program; timeout 5 ./program; find . -name program -exec {} found \;
echo x y | xargs ./program
python3 -c 'import subprocess, os; print(subprocess.run(["./program", "q"],
    close_fds=True).returncode, subprocess.run("./program", shell=True).returncode,
    os.spawnl(os.P_WAIT, "./program", "p"), [os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(p,
    [p, "x"], {}), 0)[1]) for p in ("./program", "./odd")])'
(exec -a named ./program); exec 9< src/part.h; ./program > printed; cat printed
PATH=$PWD:/usr/bin:/bin; program; make clean; ls -A . src
