# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_aggio_global_optspecs
    string join \n h/help V/version
end

function __fish_aggio_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_aggio_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_aggio_using_subcommand
    set -l cmd (__fish_aggio_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c aggio -n "__fish_aggio_needs_command" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_needs_command" -s V -l version -d 'Print version'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "hints" -d 'Show every hint: its value here, where the value comes from, and what it does'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "env" -d 'Show every environment variable of aggio, and its value here'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "simulate" -d 'Predict what collective calls of many ranks cost on a machine that you describe'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "mount" -d 'Show the containers, sets of netCDF files and coupled files of a directory as ordinary files'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "umount" -d 'Unmount, even if the process of the mount has died'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "ls" -d 'List a directory, with containers and sets of netCDF files as files'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "stat" -d 'Describe containers, sets of netCDF files, and files'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "cat" -d 'Write the bytes of containers, sets of netCDF files, and files to standard output'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "merge" -d 'Make an ordinary file, or another set, from a container or a set of netCDF files'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "verify" -d 'Compare the contents of two files, containers or sets'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "split" -d 'Make a container from an ordinary file'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "fsck" -d 'Check containers, and repair them'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "index" -d 'Seal a container that no process writes, and describe its parts'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "recover" -d 'Complete the work of killed processes'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "couple" -d 'Show the files that programs exchange in memory, and who writes, reads and waits'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "agent" -d 'Serve programs that exchange files in memory, until nothing is left to do'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "run" -d 'Run a program, or mpirun, mpiexec, srun or flux, with the library preloaded'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "doctor" -d 'Say what works here, what does not, and what helps'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "completions" -d 'Write completions for a shell'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "manual" -d 'The manual page of a command'
complete -c aggio -n "__fish_aggio_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c aggio -n "__fish_aggio_using_subcommand hints" -l file -d 'Values for this file: patterns of AGGIO_HINTS and MPICH_MPIIO_HINTS may depend on it' -r
complete -c aggio -n "__fish_aggio_using_subcommand hints" -l json -d 'Everything about every hint as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand hints" -l markdown -d 'The reference manual (docs/hints.md)'
complete -c aggio -n "__fish_aggio_using_subcommand hints" -l man -d 'The manual page aggio-hints(7)'
complete -c aggio -n "__fish_aggio_using_subcommand hints" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand env" -l json -d 'Everything about every variable as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand env" -l markdown -d 'The reference manual (docs/switches.md)'
complete -c aggio -n "__fish_aggio_using_subcommand env" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l ranks -d 'Numbers of ranks' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l machine -d 'Presets (laptop, cluster, lustre) or files with NAME = VALUE lines' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l set -d 'Changes a property of every machine' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l readers -d 'Lets so many ranks of another job read the pattern, which the ranks write to a coupled file' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l cb-nodes -d 'The hint cb_nodes, for all plans' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l cb-config-list -d 'The hint cb_config_list, for all plans' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l cb-buffer-size -d 'The hint cb_buffer_size in bytes, for all plans' -r
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l read -d 'Collective reads instead of writes'
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l markdown -d 'Tables for docs/benchmarks/simulation.md'
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -l man -d 'The manual page aggio-simulate(1)'
complete -c aggio -n "__fish_aggio_using_subcommand simulate" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l new-files -d 'What new files below the mount point become' -r -f -a "plain\t'Files as they are'
container\t'Containers'"
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l holes -d 'What sets of netCDF files contain where no process wrote anything' -r -f -a "zero\t'Zeros'
fill\t'The variable\'s fill value'"
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l verify -d 'Which bytes of containers are compared with their checksums when they are read' -r -f -a "whole\t''
always\t''
never\t''"
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l log -d 'Where messages go; without it a mount in the background writes none' -r -F
complete -c aggio -n "__fish_aggio_using_subcommand mount" -s o -d 'Options as in fstab: ro, rw, allow_other, new_files=KIND, subfiles, holes=WHAT, verify=WHICH; those for mount(8) are accepted' -r
complete -c aggio -n "__fish_aggio_using_subcommand mount" -s f -l foreground -d 'Stay in the foreground; a signal unmounts'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l rw -d 'Allow changes; without it nothing below the mount point can be changed'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l allow-other -d 'Allow other users; the modes of the files decide what they may do'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l no-passthrough -d 'Read and write plain files here even if the kernel could do so by itself'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l subfiles -d 'List the files of sets of netCDF files beside the files that they stand for'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l until-end-of-input -d 'Stay in the foreground and unmount also when standard input ends'
complete -c aggio -n "__fish_aggio_using_subcommand mount" -l background
complete -c aggio -n "__fish_aggio_using_subcommand mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c aggio -n "__fish_aggio_using_subcommand umount" -s z -l lazy -d 'Also if it is in use: it vanishes from the directory tree now and ends with its last user'
complete -c aggio -n "__fish_aggio_using_subcommand umount" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand ls" -s l -l long -d 'Mode in the letters of ls(1), owner, size, and what is a container or a set of netCDF files'
complete -c aggio -n "__fish_aggio_using_subcommand ls" -s a -l all -d 'Names that begin with a dot too'
complete -c aggio -n "__fish_aggio_using_subcommand ls" -l subfiles -d 'The files of sets, too'
complete -c aggio -n "__fish_aggio_using_subcommand ls" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand ls" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand stat" -l holes -d 'What sets of netCDF files contain where no process wrote anything' -r -f -a "zero\t'Zeros'
fill\t'The variable\'s fill value'"
complete -c aggio -n "__fish_aggio_using_subcommand stat" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand stat" -l chunks -d 'Each chunk of HDF5 files: its first element, its place and its bytes in the file'
complete -c aggio -n "__fish_aggio_using_subcommand stat" -l partial -d 'Read sets of netCDF files even if some are missing or damaged; their parts are holes'
complete -c aggio -n "__fish_aggio_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c aggio -n "__fish_aggio_using_subcommand cat" -l offset -d 'The first byte that is written' -r
complete -c aggio -n "__fish_aggio_using_subcommand cat" -l length -d 'How many bytes are written; without it all up to the end' -r
complete -c aggio -n "__fish_aggio_using_subcommand cat" -l holes -d 'What sets of netCDF files contain where no process wrote anything' -r -f -a "zero\t'Zeros'
fill\t'The variable\'s fill value'"
complete -c aggio -n "__fish_aggio_using_subcommand cat" -l partial -d 'Read sets of netCDF files even if some are missing or damaged; their parts are holes'
complete -c aggio -n "__fish_aggio_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l to -d 'The kind of file to make' -r -f -a "plain\t'The file as it is'
cdf5\t'A netCDF file of CDF-5 that holds the same'
e3sm\t'A set of blobs as E3SM-IO writes it with PnetCDF: FILE.0000, ...'
hdf5-blob\t'The same with HDF5'"
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l subfiles -d 'Files of the new set; by default one of a container, as many of a set as it has' -r
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l threads -d 'Threads that copy; 0 for as many as there are cores' -r
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l holes -d 'What sets of netCDF files contain where no process wrote anything' -r -f -a "zero\t'Zeros'
fill\t'The variable\'s fill value'"
complete -c aggio -n "__fish_aggio_using_subcommand merge" -s f -l force -d 'Replace existing files'
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l resume -d 'Keep the copied bytes if the run is interrupted, and go on with those of an earlier run; only for --to plain and a container'
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l verify -d 'Check all checksums first, and compare the new file with its source at the end'
complete -c aggio -n "__fish_aggio_using_subcommand merge" -l partial -d 'Read sets of netCDF files even if some are missing or damaged; their parts are holes'
complete -c aggio -n "__fish_aggio_using_subcommand merge" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c aggio -n "__fish_aggio_using_subcommand verify" -l holes -d 'What sets of netCDF files contain where no process wrote anything' -r -f -a "zero\t'Zeros'
fill\t'The variable\'s fill value'"
complete -c aggio -n "__fish_aggio_using_subcommand verify" -l bytes -d 'Compare the bytes of netCDF and HDF5 files, too'
complete -c aggio -n "__fish_aggio_using_subcommand verify" -l json -d 'The differences as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand verify" -l partial -d 'Read sets of netCDF files even if some are missing or damaged; their parts are holes'
complete -c aggio -n "__fish_aggio_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c aggio -n "__fish_aggio_using_subcommand split" -l frame -d 'Bytes of the file that are stored together; 0 for 4 MiB' -r
complete -c aggio -n "__fish_aggio_using_subcommand split" -l no-data-crc -d 'Store no checksums of the data'
complete -c aggio -n "__fish_aggio_using_subcommand split" -l verify -d 'Compare the container with the file before it gets its name'
complete -c aggio -n "__fish_aggio_using_subcommand split" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand fsck" -l repair -d 'Rebuild manifest, index and order from the logs, and cut off torn ends; old parts are kept'
complete -c aggio -n "__fish_aggio_using_subcommand fsck" -l salvage -d 'Also recover intact frames behind a damaged one; implies --repair'
complete -c aggio -n "__fish_aggio_using_subcommand fsck" -l quick -d 'Do not read the data to compare it with its checksums'
complete -c aggio -n "__fish_aggio_using_subcommand fsck" -l json -d 'The findings as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand fsck" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand index" -s n -l dry-run -d 'Change nothing, only describe'
complete -c aggio -n "__fish_aggio_using_subcommand index" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand index" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand recover" -l spool -d 'Where the spool files of killed processes are' -r -F
complete -c aggio -n "__fish_aggio_using_subcommand recover" -l stage -d 'Where writes of MPI programs are staged, if they are' -r -F
complete -c aggio -n "__fish_aggio_using_subcommand recover" -l changed -d 'Also write buffered bytes to files that somebody else has changed since'
complete -c aggio -n "__fish_aggio_using_subcommand recover" -l json -d 'Results as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand recover" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -l dir -d 'The directory where programs look for the agent' -r
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -l watch -d 'Look again every second, until interrupted'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -f -a "list" -d 'List files, generations, their writers and readers, and waiting processes'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -f -a "drop" -d 'Give up complete generations of files that no program has open, read or not'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and not __fish_seen_subcommand_from list drop help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from list" -l dir -d 'The directory where programs look for the agent' -r
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from list" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from drop" -l dir -d 'The directory where programs look for the agent' -r
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from drop" -l json -d 'Everything as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from drop" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from help" -f -a "list" -d 'List files, generations, their writers and readers, and waiting processes'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from help" -f -a "drop" -d 'Give up complete generations of files that no program has open, read or not'
complete -c aggio -n "__fish_aggio_using_subcommand couple; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c aggio -n "__fish_aggio_using_subcommand agent" -l dir -d 'The directory where programs look for it' -r
complete -c aggio -n "__fish_aggio_using_subcommand agent" -l foreground -d 'Stay in the foreground'
complete -c aggio -n "__fish_aggio_using_subcommand agent" -l ready -d 'Tell the program that has started it, at descriptor 3'
complete -c aggio -n "__fish_aggio_using_subcommand agent" -l stay -d 'Wait for the first program'
complete -c aggio -n "__fish_aggio_using_subcommand agent" -l quit -d 'End the agent, if no program is connected and all that is to be on disk is there; remove the names of one that was killed'
complete -c aggio -n "__fish_aggio_using_subcommand agent" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand run" -l library -d 'The library, if it is not the one that was installed with this program' -r -F
complete -c aggio -n "__fish_aggio_using_subcommand run" -l report -d 'Set AGGIO_REPORT: report about each file when it is closed, on or json' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l defer -d 'Set AGGIO_DEFER: files of MPI programs with delayed writes' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l blob -d 'Set AGGIO_BLOB: new files that become containers' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l hints -d 'Set AGGIO_HINTS: hints by file' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l posix -d 'Set AGGIO_POSIX: files of programs without MPI, and their modes' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l log -d 'Set AGGIO_LOG: which messages are written' -r
complete -c aggio -n "__fish_aggio_using_subcommand run" -l dry-run -d 'Print the command that would be run, and run nothing'
complete -c aggio -n "__fish_aggio_using_subcommand run" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand doctor" -l library -d 'The library, if it is not the one that was installed with this program' -r -F
complete -c aggio -n "__fish_aggio_using_subcommand doctor" -l json -d 'The findings as JSON'
complete -c aggio -n "__fish_aggio_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand completions" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand manual" -l exit-status -d 'All exit statuses, a line of command, number and meaning each'
complete -c aggio -n "__fish_aggio_using_subcommand manual" -l reports -d 'The reference of the reports of AGGIO_REPORT=json (docs/reports.md)'
complete -c aggio -n "__fish_aggio_using_subcommand manual" -s h -l help -d 'Print help'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "hints" -d 'Show every hint: its value here, where the value comes from, and what it does'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "env" -d 'Show every environment variable of aggio, and its value here'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "simulate" -d 'Predict what collective calls of many ranks cost on a machine that you describe'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "mount" -d 'Show the containers, sets of netCDF files and coupled files of a directory as ordinary files'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "umount" -d 'Unmount, even if the process of the mount has died'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "ls" -d 'List a directory, with containers and sets of netCDF files as files'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "stat" -d 'Describe containers, sets of netCDF files, and files'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "cat" -d 'Write the bytes of containers, sets of netCDF files, and files to standard output'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "merge" -d 'Make an ordinary file, or another set, from a container or a set of netCDF files'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "verify" -d 'Compare the contents of two files, containers or sets'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "split" -d 'Make a container from an ordinary file'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "fsck" -d 'Check containers, and repair them'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "index" -d 'Seal a container that no process writes, and describe its parts'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "recover" -d 'Complete the work of killed processes'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "couple" -d 'Show the files that programs exchange in memory, and who writes, reads and waits'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "agent" -d 'Serve programs that exchange files in memory, until nothing is left to do'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "run" -d 'Run a program, or mpirun, mpiexec, srun or flux, with the library preloaded'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "doctor" -d 'Say what works here, what does not, and what helps'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "completions" -d 'Write completions for a shell'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "manual" -d 'The manual page of a command'
complete -c aggio -n "__fish_aggio_using_subcommand help; and not __fish_seen_subcommand_from hints env simulate mount umount ls stat cat merge verify split fsck index recover couple agent run doctor completions manual help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c aggio -n "__fish_aggio_using_subcommand help; and __fish_seen_subcommand_from couple" -f -a "list" -d 'List files, generations, their writers and readers, and waiting processes'
complete -c aggio -n "__fish_aggio_using_subcommand help; and __fish_seen_subcommand_from couple" -f -a "drop" -d 'Give up complete generations of files that no program has open, read or not'
