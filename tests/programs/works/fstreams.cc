// C++ file streams and the file system library.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

namespace files = std::filesystem;

static void narrow()
{
    {
        std::ofstream out("text");
        for (int i = 0; i < 2000; i++)
            out << i << ' ' << i * 0.5 << '\n';
        out << std::flush << "unflushed";
        std::cout << out.tellp() << ' ' << out.good() << '\n';
    }
    std::fstream both("text", std::ios::in | std::ios::out | std::ios::binary);
    std::string line;
    std::getline(both, line), std::cout << line << ' ', std::getline(both, line),
        std::cout << line << ' ' << both.tellg() << '\n';
    both.seekp(100), both.write("OVERWRITTEN", 11), both.seekg(95), both.width(20), both >> line;
    std::cout << line << '\n', both.seekg(0, std::ios::end), std::cout << both.tellg() << '\n',
        both.close();
    std::ofstream("text", std::ios::app) << "\nappended";
    std::ifstream in("text");
    std::cout << std::count(std::istreambuf_iterator<char>(in), {}, '\n') << ' ' << in.eof()
              << '\n';
    std::vector<char> big(300000, 'b');
    std::ofstream binary("binary", std::ios::binary);
    binary.rdbuf()->pubsetbuf(nullptr, 0);
    binary.put('a').write(big.data(), big.size()).seekp(10), binary << 'c', binary.close();
    std::ifstream back("binary", std::ios::binary | std::ios::ate);
    std::cout << back.tellg() << ' ' << std::ifstream("missing").is_open() << '\n', back.seekg(9);
    std::cout << char(back.get()) << char(back.get()) << char(back.peek())
              << back.rdbuf()->in_avail() / 1000000 << '\n';
    back.exceptions(std::ios::failbit);
    try {
        back.seekg(0, std::ios::end), back.read(big.data(), 10);
    } catch (const std::ios::failure &) {
        std::cout << "failure, " << back.gcount() << '\n';
    }
    std::ostringstream all;
    all << std::ifstream("text").rdbuf();
    std::cout << all.str().size() << '\n';
}

static void wide()
{
    std::locale utf8("C.UTF-8");
    std::wofstream out;
    out.imbue(utf8), out.open("wide"),
        out << L"stra\u00dfe \u20ac\n"
            << 5 << L' ' << 2.5 << L'\n',
        out.close();
    std::wifstream in;
    in.imbue(utf8), in.open("wide");
    std::wstring word, rest;
    in >> word, std::getline(in, rest),
        std::cout << word.size() << ' ' << rest.size() << ' ' << files::file_size("wide") << '\n';
}

static void names()
{
    files::create_directories("d/e"), files::copy_file("text", "d/copy"),
        files::copy("binary", "d/e/binary");
    files::rename("d/copy", "d/renamed"), files::resize_file("d/renamed", 10),
        files::permissions("d/renamed", files::perms(0600));
    std::vector<std::string> found;
    for (const auto &entry : files::recursive_directory_iterator("d"))
        found.push_back(entry.path().string() + (entry.is_regular_file() ? " file" : " directory"));
    std::sort(found.begin(), found.end());
    for (const auto &name : found)
        std::cout << name << '\n';
    std::cout << files::file_size("d/renamed") << ' ' << files::is_directory("text")
              << files::exists("d/e/none") << files::equivalent("text", "d/../text");
    std::cout << ' ' << files::remove_all("d") << ' ' << files::exists("d") << '\n';
}

int main()
{
    narrow(), wide(), names();
    std::ofstream left("left");
    left << "closed by the destructor";
}
