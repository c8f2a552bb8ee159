// Writes records with a C++ stream that is flushed after each, and prints how many seconds that
// took. usage: records FILE LENGTH COUNT
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    std::string record(std::atol(argv[2]), 'r');
    long count = std::atol(argv[3]);
    auto start = std::chrono::steady_clock::now();
    std::ofstream file(argv[1], std::ios::binary | std::ios::trunc);
    for (long i = 0; i < count; i++)
        file << record << std::flush;
    file.close();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << seconds.count() << std::endl;
    return !file;
}
