# SQLite with a write-ahead log, whose index is shared memory.
sqlite3 d.db 'pragma journal_mode=wal; create table t(k integer primary key, v);
  insert into t select value, value * 2 from generate_series(1, 1000); select count(*) from t;'
for worker in 1 2; do
  (for i in $(seq 15)
  do sqlite3 -cmd '.timeout 20000' d.db "begin immediate; update t set v = v + 1 where k = 1;
    commit;" || echo failed; done) &
done; wait
coproc sqlite3 -batch d.db; echo "begin; select v from t where k = 1;" >&"${COPROC[1]}"
read -r word <&"${COPROC[0]}"; echo "$word"
sqlite3 d.db 'update t set v = 0 where k = 1; select v from t where k = 1;'; ls
echo 'select v from t where k = 1; commit; select v from t where k = 1;' >&"${COPROC[1]}"
read -r word <&"${COPROC[0]}"; echo "old $word"; read -r word <&"${COPROC[0]}"; echo "new $word"
eval "exec ${COPROC[1]}>&-"; wait
sqlite3 d.db 'pragma wal_checkpoint(truncate); pragma integrity_check; pragma journal_mode=delete;
  select sum(v) from t;'; ls
