// Writes or reads generations of a text by C++ streams, and checks every number.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    const std::string what = argv[1], file = argv[2];
    const int generations = std::atoi(argv[3]), numbers = std::atoi(argv[4]);
    for (int generation = 1; generation <= generations; generation++) {
        if (what == "write") {
            std::ofstream out(file);
            for (int i = 0; i < numbers; i++) out << generation * 1000003 + i << '\n';
            out.close();
            if (!out) return 1;
            continue;
        }
        std::ifstream in(file);
        if (!in) return 1;
        long found = 0, value;
        while (in >> value) {
            if (value != generation * 1000003L + found) {
                std::cerr << "number " << found << " is " << value << '\n';
                return 1;
            }
            found++;
        }
        if (found != numbers) {
            std::cerr << found << " numbers, not " << numbers << '\n';
            return 1;
        }
        std::cout << "generation " << generation << ": " << found << " numbers\n";
    }
}
