# SQLite, which reads the database by a mapping that it writes around, with a journal and with a
# write-ahead log.
for journal in delete wal; do
    sqlite3 $journal.db "PRAGMA journal_mode=$journal; PRAGMA mmap_size=1000000000;
        create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i+1 from n where i<5000)
          insert into t select i, hex(i*i) from n;
        select count(*), sum(length(b)) from t; update t set b=b||'x' where a%3=0;
          select sum(length(b)) from t;
        delete from t where a%2=1; vacuum; select count(*), max(b) from t; pragma integrity_check;"
    sqlite3 $journal.db "PRAGMA mmap_size=1000000000; insert into t select a+100000, b from t;
      select count(*) from t; pragma integrity_check;"
done
