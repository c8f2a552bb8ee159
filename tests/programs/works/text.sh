# Editing in place, searching, patching.
seq 20 | sed 's/$/ words of a text/' > text; sed -i.old '3s/words/WORDS/;5d' text
diff text.old text; sed -n '2,4p' text
awk '{ print > ("by-" $1 % 3) } END { print NR }' text; wc by-*
awk -F' ' '{ s += $1 } END { print s }' by-*
grep -c words text; grep -r -l WORDS . | sort; grep -n WORDS text text.old
find . -type f -print0 | sort -z | xargs -0 wc -c
diff -u text.old text | sed 's/\t.*//' > change; cp text.old target; patch -s target change
cmp target text && echo patched
perl -i -pe 's/text/book/' text; tail -n 1 text
perl -e 'open my $f, "+<", "text"; seek $f, 5, 0; print $f "xyz"; close $f; print -s "text", "\n"'
gzip -k text; gzip -l text.gz | tail -n 1 | cut -c 1-20; zcat text.gz | cmp - text && echo the same
gzip -d -c text.gz > back; cmp back text; rm text.gz
tr a-z A-Z < text | rev | fold -w 9 | nl | head -n 3; xxd text | head -n 1; strings text | wc -l
expand text | uniq | wc -l
