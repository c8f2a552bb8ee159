// The C binding called from C++, with the file's lifetime bound to an object.
#include "check.h"
#include <string>
#include <vector>

class File {
public:
  File(MPI_Comm comm, const std::string &path, int amode) {
      OK(MPI_File_open(comm, path.c_str(), amode, MPI_INFO_NULL, &file));
  }
    ~File() { OK(MPI_File_close(&file)); }
    MPI_File file = MPI_FILE_NULL;
};

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    {
        File output(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR);
        std::vector<double> numbers(1000, check_rank + 0.5), back(1000);
        MPI_Status status;
        MPI_Offset mine = check_rank * 1000 * (MPI_Offset)sizeof(double);
        OK(MPI_File_write_at_all(output.file, mine, numbers.data(), 1000, MPI_DOUBLE, &status));
        COUNT(&status, MPI_DOUBLE, 1000);
        OK(MPI_File_read_at_all(output.file, mine, back.data(), 1000, MPI_DOUBLE, &status));
        CHECK(numbers == back, "did not come back");
    }
    return check_finish();
}
