# C streams, narrow and wide, also where the shell redirects the standard ones.
"$WORKS/streams_c" .; echo "status $?"; for f in *; do echo "$f $(cksum < "$f")"; done
mkdir more; "$WORKS/streams_c" more > printed 2> said; cat printed said
echo '42 größe of it' > words; "$WORKS/streams_c" < words > letters; echo "status $?"
head -n 3 letters; cksum < letters; "$WORKS/streams_c" < words | cksum
