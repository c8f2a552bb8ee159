# For scripts that measure kinds of transfers by turns: needs `one KIND`, which prints a figure, and
# the directory `work`.

# Measures all kinds in each of ROUNDS rounds; prints every figure, then the medians under HEADING.
by_turns() { # ROUNDS HEADING KIND...
    local rounds=$1 heading=$2 kind
    shift 2
    for _ in $(seq "$rounds"); do
        for kind in "$@"; do
            echo "$kind $(one "$kind")" | tee -a "$work/figures"
        done
    done
    echo "$heading"
    for kind in "$@"; do
        grep "^$kind " "$work/figures" | sort -k 2 -n | sed -n "$(((rounds + 1) / 2))p"
    done
}
