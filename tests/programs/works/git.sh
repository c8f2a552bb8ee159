# git: a repository is made, filled, cloned, changed, merged, packed and checked.
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_PAGER=cat
export GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git -c init.defaultBranch=main init -q one; cd one
mkdir sub; seq 1000 > numbers; echo text > sub/text; ln -s numbers link
printf '#!/bin/sh\necho ran\n' > run; chmod 755 run
git add -A; git status --short; git commit -q -m first; git log --oneline --stat
sed -i s/5/five/ numbers; git diff --stat; git commit -q -am second; git tag t1; git branch side
echo more >> sub/text; git stash -q; git stash list | cut -c 1-20; git stash pop -q
git commit -q -am third
cd ..; git clone -q one two; cd two; git fsck --full --strict; git log --format=%H | head -n 1
git ls-files -s
git checkout -q -b work t1; echo side > side; git rm -q sub/text; git add side
git commit -q -m side; git merge -q -m merged origin/main; git status --short | head
git log --format=%s -n 1
git checkout -q -f main; ls -A; git push -q origin work; git gc -q 2>&1; git fsck --full
git count-objects -v | grep -v size; git archive work | tar -tf - | sort
git -C ../one log --format=%s work -n 1; git -C ../one status --short; git grep -c five
git -C ../one worktree add -q ../three side; ls -A ../three
git blame -s numbers | head -n 5 | cut -c 9-
git cat-file -p work:side; cd ..; diff -r -x .git one two; rm -rf one two three; ls -A
