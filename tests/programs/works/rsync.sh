# rsync: whole, changed, in place, deleted. Every file has its own time, for rsync goes by size and
# time.
umask 022
at() { touch -d "2020-01-01 00:00:$1 UTC" "$2"; }
mkdir -p from/sub; seq 20000 > from/numbers; at 01 from/numbers; echo small > from/sub/small
at 02 from/sub/small; ln -s numbers from/link; : > from/empty; at 03 from/empty
rsync -a from/ to/; diff -r from to && echo copied; rsync -ai from/ to/ | grep -v '^\.d'
echo "nothing to do"
echo more >> from/numbers; at 04 from/numbers; echo other > from/sub/small; at 05 from/sub/small
rsync -a -i --no-whole-file from/ to/ | grep -v '^\.d'; cmp from/numbers to/numbers
sed -i 1,100s/1/x/ from/numbers; at 06 from/numbers; rsync -a --inplace --no-whole-file from/ to/
cmp from/numbers to/numbers && echo in place
echo appended >> from/numbers; at 07 from/numbers; rsync -a --append-verify from/ to/
tail -n 1 to/numbers; rm from/empty; rsync -a --delete -i from/ to/ | grep -v '^\.d'; ls to
rsync -rc --stats from/ to/ | grep 'files transferred'; echo newer > from/sub/small
at 08 from/sub/small; rsync -a -b --suffix=~ from/sub/ to/; ls -A to
stat -c '%n %y' to/sub/small to/small
