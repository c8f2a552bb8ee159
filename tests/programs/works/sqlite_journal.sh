# SQLite with a rollback journal: transactions, two processes at once, a lock that another process
# holds.
sqlite3 d.db 'create table t(k integer primary key, v text); begin;
  insert into t select value, hex(value) from generate_series(1, 2000); commit;
  select count(*), sum(k) from t;'
sqlite3 d.db 'begin; delete from t where k > 10; select count(*) from t; rollback;
  select count(*) from t; pragma journal_mode;'
sqlite3 d.db 'create index i on t(v); pragma integrity_check; delete from t where k % 2; vacuum;
  select count(*) from t;'
for worker in 1 2; do
  (for i in $(seq 15)
  do sqlite3 -cmd '.timeout 20000' d.db "begin immediate; update t set k = -k where k = 2;
    update t set k = -k, v = v || 'x' where k = -2; commit;" || echo failed; done) &
done; wait
sqlite3 d.db 'select length(v) from t where k = 2; pragma integrity_check;'
coproc sqlite3 -batch d.db; echo "begin exclusive; select 'held';" >&"${COPROC[1]}"
read -r word <&"${COPROC[0]}"; echo "$word"
sqlite3 d.db 'select count(*) from t;' 2>&1; echo "status $?"; echo 'commit;' >&"${COPROC[1]}"
eval "exec ${COPROC[1]}>&-"; wait
sqlite3 d.db 'select count(*) from t'; for mode in truncate persist memory off
do sqlite3 d.db "pragma journal_mode=$mode; insert into t(v) values('$mode');"; done
sqlite3 d.db .dump | sqlite3 copy.db; sqlite3 copy.db 'select count(*), sum(length(v)) from t'
sqlite3 d.db '.backup saved.db'; cmp d.db saved.db; ls
sqlite3 copy.db 'drop table t; vacuum; pragma page_count'; rm -f *-journal
