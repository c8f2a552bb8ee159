# Locks hold against other processes, and end with their holders.
echo content > f
flock f true; echo "free $?"; (flock 9; flock -n f true; echo "held $?"; flock -u 9; flock -n f true
echo "given back $?") 9>> f
exec 8< f; flock -s 8; flock -s -n f true; echo "shared $?"; flock -x -n f true; echo "exclusive $?"
exec 8<&-; flock -n f true; echo "closed $?"
echo 0 > count; for i in 1 2 3; do (for j in $(seq 10); do (flock 9; read -r n < count
echo $((n + 1)) > count) 9>> lock; done) & done; wait; test "$(cat count)" = 30 && echo counted
python3 - <<'END'
import fcntl, os, struct
def child(act):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try: act(); os.write(write, b"got it")
        except OSError as error: os.write(write, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(pid, 0); return os.read(read, 100).decode()
f = open("f", "r+"); never = fcntl.LOCK_EX | fcntl.LOCK_NB
def ask(start, len): g = open("f", "r+"); fcntl.lockf(g, never, len, start)
fcntl.lockf(f, never, 10, 0)
print(child(lambda: ask(0, 5)), child(lambda: ask(10, 5)), child(lambda: fcntl.lockf(f, never, 3,
    9)))
fcntl.lockf(f, fcntl.LOCK_UN, 5, 0); print(child(lambda: ask(0, 5)), child(lambda: ask(4, 3)))
def who():
    g = open("f")
    return struct.unpack("hhqqi", fcntl.fcntl(g, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK,
        0, 0, 0, 0)))[:4]
read, write = os.pipe()
if os.fork() == 0: os.write(write, repr(who()).encode()); os._exit(0)
os.wait(); print(os.read(read, 100).decode())
open("f").close(); print(child(lambda: ask(0, 20)))
r = open("f"); fcntl.lockf(r, fcntl.LOCK_SH | fcntl.LOCK_NB)
print(child(lambda: ask(0, 0)), child(lambda: fcntl.lockf(open("f"),
    fcntl.LOCK_SH | fcntl.LOCK_NB)))
try: fcntl.lockf(r, never)
except OSError as error: print(error.errno)
fcntl.flock(f, never)
print(child(lambda: fcntl.flock(f, never)), child(lambda: fcntl.flock(open("f"), never))); f.close()
print(child(lambda: fcntl.flock(open("f"), never)))
END
# Random locks of two processes on the same file, each with two descriptors; neither waits.
python3 - <<'END'
import fcntl, os, random, struct
random.seed(7); log = []
class Other:
    def __init__(self):
        commands, self.ask = os.pipe(); self.receive, answers = os.pipe()
        if os.fork() == 0:
            os.close(self.ask); files = [open("r", "r+"), open("r", "r+")]
            while line := os.read(commands, 200): os.write(answers, act(files, eval(line)).encode())
            os._exit(0)
        os.close(commands); os.close(answers)
    def do(self, what):
        os.write(self.ask, repr(what).encode()); return os.read(self.receive, 200).decode()
def act(files, what):
    kind, which, how, start, len = what
    try:
        if kind == "flock": fcntl.flock(files[which], how | fcntl.LOCK_NB)
        elif kind == "lock":
            fcntl.lockf(files[which], how | (0 if how == 8 else fcntl.LOCK_NB), len, start)
        elif kind == "open":
            fcntl.fcntl(files[which], fcntl.F_OFD_SETLK, struct.pack("hhqqi", {1: 0, 2: 1,
                8: 2}[how], 0, start, len, 0))
        elif kind == "ask":
            return repr(struct.unpack("hhqqi", fcntl.fcntl(files[which], fcntl.F_GETLK,
                struct.pack("hhqqi", how & 1, 0, start, len, 0)))[:4])
        else: files[which].close(); files[which] = open("r", "r+")
        return "done"
    except OSError as error: return str(error.errno)
with open("r", "w") as f: f.write("x" * 100)
others = [Other(), Other()]
for step in range(600):
    what = (random.choice(["flock", "lock", "lock", "lock", "open", "ask",
        "close"] if step % 50 else ["close"]), random.randrange(2), random.choice([1, 2, 2, 8]),
        random.randrange(8), random.randrange(5))
    who = random.randrange(2); log.append(f"{step} {who} {what} {others[who].do(what)}")
print("\n".join(log)); [os.close(other.ask) for other in others]
END
