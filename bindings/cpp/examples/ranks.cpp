// A training exchange of programs with one worker per process: every rank encodes its own
// gradients, owns a shard of the sums, and receives all sums. The ranks are processes that a parent
// connects by sockets; with MPI, all_to_all() is MPI_Alltoallv, and all_gather() MPI_Allgatherv.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apscope/apscope.h>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

using Bytes = std::vector<std::byte>;

namespace {

constexpr int workers = 3;
const char* const scheme = "error_feedback(aps:e3m0)";
const std::vector<apscope::TrainedTensor> tensors = {{"fc.weight", "linear", {4, 2}}};

void put(int socket, const void* bytes, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t some = write(socket, static_cast<const char*>(bytes) + done, size - done);
        if (some <= 0) std::exit(1);
        done += static_cast<std::size_t>(some);
    }
}
void get(int socket, void* bytes, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        const ssize_t some = read(socket, static_cast<char*>(bytes) + done, size - done);
        if (some <= 0) std::exit(1);
        done += static_cast<std::size_t>(some);
    }
}
void put(int socket, const Bytes& message) {
    const std::size_t size = message.size();
    put(socket, &size, sizeof size);
    put(socket, message.data(), size);
}
Bytes get(int socket) {
    std::size_t size = 0;
    get(socket, &size, sizeof size);
    Bytes message(size);
    get(socket, message.data(), size);
    return message;
}

// Sends message r to rank r; returns the messages that the ranks sent to this one.
std::vector<Bytes> all_to_all(int socket, const std::vector<Bytes>& messages) {
    for (const Bytes& message : messages) put(socket, message);
    std::vector<Bytes> received;
    for (int r = 0; r < workers; ++r) received.push_back(get(socket));
    return received;
}
std::vector<Bytes> all_gather(int socket, const Bytes& message) {
    return all_to_all(socket, std::vector<Bytes>(workers, message));
}

std::vector<float> gradient_of(int step, int rank) {
    std::vector<float> gradient;
    for (int i = 0; i < 8; ++i)
        gradient.push_back(static_cast<float>((7 * i + 5 * rank + 3 * step) % 11 - 5) / 16);
    return gradient;
}

void work(int rank, int socket) {
    apscope::RankExchange exchange(scheme, tensors, rank, workers);
    for (int step = 0; step < 2; ++step) {
        const std::vector<float> gradient = gradient_of(step, rank);
        std::vector<float> mean(gradient.size());
        const std::vector<std::span<float>> out = {mean};
        const auto shards = all_to_all(socket, exchange.send({step, {gradient}}));
        exchange.receive(all_gather(socket, exchange.add(shards)), out);
        put(socket, mean.data(), mean.size() * sizeof(float));  // for the comparison below
    }
}

}  // namespace

int main() {
    int sockets[workers];
    for (int rank = 0; rank < workers; ++rank) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
        if (fork() == 0) {
            close(ends[0]);
            work(rank, ends[1]);
            return 0;
        }
        close(ends[1]);
        sockets[rank] = ends[0];
    }
    // The same exchange in one process.
    apscope::TrainingExchange whole(scheme, tensors, workers, "two_phase");
    for (int step = 0; step < 2; ++step) {
        for (int round = 0; round < 2; ++round) {  // all_to_all(), all_gather()
            std::vector<std::vector<Bytes>> messages;
            for (const int from : sockets) {
                auto& sent = messages.emplace_back();
                for (int to = 0; to < workers; ++to) sent.push_back(get(from));
            }
            for (std::size_t to = 0; to < workers; ++to)
                for (const auto& sent : messages) put(sockets[to], sent[to]);
        }
        std::vector<std::vector<float>> gradients;
        for (int rank = 0; rank < workers; ++rank) gradients.push_back(gradient_of(step, rank));
        std::vector<float> expected(8), mean(8);
        apscope::TrainedStep own;
        own.step = step;
        own.gradients = {{gradients.begin(), gradients.end()}};
        own.out = {expected};
        whole.run(own);
        int equal = 0;
        for (const int from : sockets) {
            get(from, mean.data(), mean.size() * sizeof(float));
            equal += mean == expected ? 1 : 0;
        }
        std::printf("step %d:", step);
        for (const float x : mean) std::printf(" %g", x);
        std::printf("\n%d of %d ranks have the numbers of one process\n", equal, workers);
    }
    while (wait(nullptr) > 0) continue;
    return 0;
}
