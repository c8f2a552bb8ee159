# Archives: made, listed, compared, extracted, grown.
umask 022
mkdir -p s/sub; for i in 1 2 3; do seq $i 1000 > s/$i; done; echo deep > s/sub/f; ln -s 1 s/link
: > s/empty; chmod 600 s/2
truncate -s 300K s/holes; printf end >> s/holes; touch -d '2020-01-01 UTC' s/*
tar --sort=name -cf s.tar s; mkdir u; tar -xf s.tar -C u; diff -r s u/s && echo equal; tar -tf s.tar
stat -c '%n %a %s' u/s/*
tar -df s.tar && echo no difference; echo changed > s/3; touch -d '2020-01-01 UTC' s/3
tar -df s.tar; echo "status $?"; tar -rf s.tar s/3; tar -tf s.tar | tail -n 1
tar -xOf s.tar s/sub/f
tar -C s --sort=name --sparse -czf z.tar.gz .; mkdir v; tar -xzf z.tar.gz -C v
diff -r s v && echo equal; tar -tzf z.tar.gz | wc -l
tar -xf s.tar -C u --overwrite s/3; cat u/s/3; tar --delete -f s.tar s/1; tar -tf s.tar | head -n 3
rm s.tar z.tar.gz
