// Runs the kernels of `kernels.cu` on the CPU for tests, see `emulated.rs`: calls come in on stdin, results go out on stdout. The
// threads of a block are threads of the system and run concurrently; blocks run one after the other. `kernels.inc` names the kernels.

#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

// A few threads take as many turns around a grid as many blocks would.
#define TEAM 8

struct Place {
    unsigned x, y;
};
static thread_local Place threadIdx, blockIdx;
static Place blockDim{TEAM, 1}, gridDim;
static std::barrier<> team(TEAM), gate(TEAM + 1);

#define __device__
#define __global__
#define __shared__ static
#define __syncthreads() team.arrive_and_wait()
#include "kernels.cu"

// One argument. `how`: r(ead), c(hanged), o(utput), n(othing), or the type of a number.
struct Value {
    char how, type;
    std::vector<char> bytes;
};

template <class T> constexpr char letter() {
    if constexpr (std::is_same_v<T, float>) return 'f';
    else if constexpr (std::is_same_v<T, double>) return 'd';
    else if constexpr (std::is_same_v<T, u32>) return 'u';
    else if constexpr (std::is_same_v<T, u64>) return 'k';
    else return 'b';
}

template <class T> static T argument(Value &value, size_t at) {
    auto refuse = [&](const char *what) { throw std::runtime_error("argument " + std::to_string(at) + " " + what); };
    if constexpr (std::is_pointer_v<T>) {
        using Element = std::remove_pointer_t<T>;
        if (value.how == 'n') return nullptr;
        if (std::strchr("rco", value.how) == nullptr) refuse("is a number, expected a pointer");
        if (value.type != letter<std::remove_const_t<Element>>()) refuse("points to another type");
        if (std::is_const_v<Element> != (value.how == 'r')) refuse("is written where it is to be read, or the other way round");
        return reinterpret_cast<T>(value.bytes.data());
    } else {
        if (value.how != letter<T>()) refuse("is no number of the type that is declared");
        T number;
        std::memcpy(&number, value.bytes.data(), sizeof number);
        return number;
    }
}

template <class... A, size_t... I>
static std::function<void()> bound(void (*kernel)(A...), std::vector<Value> &values, std::index_sequence<I...>) {
    if (values.size() != sizeof...(A)) throw std::runtime_error("it takes " + std::to_string(sizeof...(A)) + " arguments");
    std::tuple<A...> args{argument<A>(values[I], I)...};
    return [kernel, args] { std::apply(kernel, args); };
}

template <class... A> static std::function<void()> bound(void (*kernel)(A...), std::vector<Value> &values) {
    return bound(kernel, values, std::index_sequence_for<A...>());
}

// Whether the threads of a block share memory, which belongs to one block at a time.
static bool sharing;

static std::function<void()> named(const std::string &name, std::vector<Value> &values) {
#define KERNEL(kernel, shares) \
    if (name == #kernel) return sharing = shares, bound(kernel, values);
#include "kernels.inc"
    throw std::runtime_error("there is no such kernel");
}

static std::function<void()> job;

// What one thread of every block does.
static void work(unsigned me) {
    threadIdx = {me, 0};
    for (;;) {
        gate.arrive_and_wait();
        for (unsigned y = 0; y < gridDim.y; y++) {
            for (unsigned x = 0; x < gridDim.x; x++) {
                blockIdx = {x, y};
                job();
                if (sharing) team.arrive_and_wait();
            }
        }
        gate.arrive_and_wait();
    }
}

static void get(void *to, size_t size) {
    if (size > 0 && std::fread(to, size, 1, stdin) != 1) std::exit(EXIT_SUCCESS);
}

static u32 number() {
    u32 value;
    get(&value, sizeof value);
    return value;
}

static void put(const void *from, size_t size) {
    if (size > 0) std::fwrite(from, size, 1, stdout);
}

static Value value() {
    Value value{0, 0, {}};
    get(&value.how, 1);
    switch (value.how) {
    case 'n': return value;
    case 'u':
    case 'f': value.bytes.resize(4); break;
    case 'k': value.bytes.resize(8); break;
    default: get(&value.type, 1), value.bytes = std::vector<char>(number(), '\xff');
    }
    if (value.how != 'o') get(value.bytes.data(), value.bytes.size());
    return value;
}

int main() {
    for (unsigned me = 0; me < TEAM; me++) std::thread(work, me).detach();
    for (;;) {
        std::string name(number(), ' ');
        get(name.data(), name.size());
        unsigned blocks = number(), lanes = number();
        std::vector<Value> values(number());
        for (auto &one : values) one = value();
        std::string wrong;
        try {
            job = named(name, values);
            gridDim = {blocks, lanes};
            gate.arrive_and_wait();
            gate.arrive_and_wait();
        } catch (const std::exception &e) {
            wrong = e.what();
        }
        u32 size = wrong.size();
        put(&size, sizeof size);
        put(wrong.data(), size);
        for (auto &one : values) {
            if (wrong.empty() && (one.how == 'c' || one.how == 'o')) put(one.bytes.data(), one.bytes.size());
        }
        std::fflush(stdout);
    }
}
