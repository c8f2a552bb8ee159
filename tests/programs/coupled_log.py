"""Writes or follows a file of lines that grows, while the other side is at work.

coupled_log.py write FILE LINES [PAUSE]
coupled_log.py follow FILE LINES

The writer synchronises after each line. The reader opens the file once and reads new lines until
it has all of them; each time that the file has grown, it prints the number of lines.
"""
import os
import sys
import time

LENGTH = 5000


def line(number):
    return (f"line {number} ".ljust(LENGTH - 1, chr(ord("a") + number % 26)) + "\n").encode()


def write(path, lines, pause):
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in range(lines):
        os.write(out, line(number))
        os.fsync(out)
        time.sleep(pause)
    os.close(out)


def follow(path, lines):
    file, seen = os.open(path, os.O_RDONLY), 0
    while seen < lines:
        there = os.fstat(file).st_size // LENGTH
        for number in range(seen, there):
            found = os.pread(file, LENGTH, LENGTH * number)
            if found != line(number):
                sys.exit(f"line {number} of {there} is {found[:20]}")
        if there > seen:
            print(there, flush=True)
        seen = there
        time.sleep(0.003)
    os.close(file)


what, path, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
if what == "follow":
    follow(path, lines)
else:
    write(path, lines, float(sys.argv[4]) if len(sys.argv) > 4 else 0.02)
