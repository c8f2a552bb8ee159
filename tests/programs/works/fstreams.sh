# C++ streams, narrow and wide, and std::filesystem.
"$WORKS/fstreams_cc"; echo "status $?"; "$WORKS/fstreams_cc" > printed; cat printed
cksum text binary wide left
