# Coreutils: copying, cutting, joining, sorting, counting, removing.
umask 022
seq 5000 > a; cp a b; sort -r a -o c; sort -n c -o c; cmp a c && echo sorted; cp -p a p
test a -nt p || test a -ot p || echo same time
dd if=a of=d bs=100 count=20 seek=3 conv=notrunc status=none
dd if=a of=d bs=1 count=7 skip=5 seek=50000 status=none conv=notrunc; cksum a b c d
mv b e; mv -f e c; test -e e || echo moved; mv -n a c; ls; truncate -s 7 c; cat c; truncate -s +5 c
od -c c
head -c 20 a | tail -c 5; tail -n 2 a; tac a | head -n 2; tail -c +23890 a
split -n 3 a part-; cat part-a? | cmp - a && echo whole; split -l 2000 --numeric-suffixes a lines-
wc -l lines-*
csplit -s a 10 20 && wc -l xx00 xx01; paste -d, xx00 xx00 | head -n 2; join xx00 xx01
comm -12 a <(sort a) | wc -l
install -m 640 a installed; stat -c '%n %s %a %F %h' installed d; chmod 755 installed
test -x installed && stat -c %A installed
ln -s a link; cat link | tail -n 1; readlink link; cp -P link other; cp link followed
cmp a followed; stat -L -c %s link; realpath --relative-to=. link
touch -d '2001-02-03 04:05:06.5 UTC' a; stat -c %y a; cp -a a archived; stat -c '%y %s' archived
touch new; stat -c %s new; cp --sparse=always d sparse; cmp d sparse
mkdir -p tree/deep/er; cp a tree/one; echo x > tree/deep/two; echo y > tree/deep/er/three
cp -r tree wood; diff -r tree wood && echo equal trees
ls -R tree; ls -F tree; ls --group-directories-first tree; find tree -type f | sort
find tree -type d | sort; find tree -name 'tw*' -size -2 -exec cat {} +
chmod -R go-r tree; stat -c '%n %a' tree/one tree/deep/two; mktemp xyzXXXXXX | wc -c; rm xyz*
shred -u -n 1 new; test -e new || echo shredded
rm -r wood; test -e wood || echo gone; rm -rf tree/deep; ls tree; rmdir a; echo "status $?"
rmdir tree/one; echo "status $?"; mkdir a; echo "status $?"
cat a/; cd a; echo "status $?"; cat missing a | head -n 1; rm a; test -e a || echo removed; unlink c
echo ./*; md5sum d | cut -c 1-8; base64 d | sha256sum
