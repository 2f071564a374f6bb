// Templates, operators, lambdas, anonymous namespaces.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace shapes {

template <typename T, std::size_t N>
struct Block {
    T values[N];

    T sum() const {
        T all{};
        for (std::size_t at = 0; at < N; at++) {
            all += values[at];
        }
        return all;
    }

    bool operator<(const Block &other) const { return sum() < other.sum(); }
};

namespace {

template <typename F>
__attribute__((noinline)) int apply(F f, int times) {
    int all = 0;
    for (int at = 0; at < times; at++) {
        all += f(at);
    }
    return all;
}

}  // namespace

__attribute__((noinline)) int count_words(const std::vector<std::string> &words) {
    std::map<std::string, int> counts;
    for (const auto &word : words) {
        counts[word] += 1;
    }
    int all = 0;
    for (const auto &pair : counts) {
        all += pair.second * static_cast<int>(pair.first.size());
    }
    return all;
}

template <typename T>
__attribute__((noinline)) bool less(const Block<T, 4> &a, const Block<T, 4> &b) {
    return a < b;
}

template bool less<float>(const Block<float, 4> &, const Block<float, 4> &);
template bool less<int>(const Block<int, 4> &, const Block<int, 4> &);

}  // namespace shapes

extern "C" int entry(int times) {
    int outer = times * 3;
    auto once = [outer](int at) { return at * outer + 1; };
    return shapes::apply(once, times) + shapes::count_words({"a", "bb", "a"});
}
