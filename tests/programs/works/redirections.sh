# What a shell does with files: redirections, here-documents, descriptors of its own.
for i in 1 2 3 4 5; do echo line $i >> log; done
exec 3<>log; read -r -u 3 first; echo "$first"; echo new >&3; exec 3>&-; cat log
cat > document <<END
here: $(seq 3 | tr '\n' ' ')
$((6 * 7))
END
cat document; cat <<< "a string" > string; cat string
exec 4>&1 > both 2>&1; echo one; ls missing; echo two >&2; printf three; exec >&4 2>&4 4>&-
cat both; echo
echo text &> all; echo more &>> all; cat all
set -o noclobber; echo again > all; echo "status $?"; echo again >| all; cat all; set +o noclobber
mapfile -t lines < log; echo "${#lines[@]} ${lines[1]}"
while read -r word rest; do echo "$rest:$word"; done < log > turned; cat turned
seq 100 | tee copy | tail -n 1; wc -l < copy; (echo sub; echo shell) > group; { cat group; echo done
} >> copy; tail -n 3 copy
: > empty; test -s empty || echo empty
test -f log && test ! -d log && test -r log && test -w log && test ! -x log && echo plain
diff <(sort -n copy | head -n 3) <(head -n 3 copy | sort -n) && echo same
env -i sh -c 'echo without an environment; cat' < turned > isolated; cat isolated
(exec env -i /bin/cat log) >> isolated; wc -c < isolated
python3 -c 'import subprocess; subprocess.run(["/bin/echo", "child"], env={},
    stdout=open("child", "w"))'
cat child
echo 'echo a script says $1; exit 7' > script; bash script word; echo "status $?"
. ./script sourced 2> /dev/null
