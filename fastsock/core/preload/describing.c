#define _GNU_SOURCE
#include "describing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "next.h"
#include "process.h"
#include "rules.h"

/* ---- text ---- */

static void put_byte(struct fs_line *line, char byte)
{
    if (line->length + 1 < line->room) line->bytes[line->length++] = byte; /* one is left for the line's end */
}

static void put_escaped(struct fs_line *line, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte != '"' && byte != '\\' && byte >= ' ' && byte < 0x7f) {
        put_byte(line, (char)byte);
        return;
    }
    const char escaped[] = {'\\',
                            'u',
                            byte < 0x80 ? '0' : 'd',
                            byte < 0x80 ? '0' : 'c',
                            digits[byte >> 4],
                            digits[byte & 15]}; /* a byte that is no ASCII, as Python's surrogateescape */
    if (line->length + sizeof escaped >= line->room) return;
    for (size_t i = 0; i < sizeof escaped; i++) put_byte(line, escaped[i]);
}

void fs_line_put(struct fs_line *line, const char *text)
{
    for (; *text != 0; text++) {
        if (line->escapes) put_escaped(line, (unsigned char)*text);
        else put_byte(line, *text);
    }
}

static void put_digits(struct fs_line *line, uint64_t number, const char *separator)
{
    char digits[32];
    size_t at = sizeof digits - 1, count = 0;
    digits[at] = 0;
    do {
        if (count > 0 && count % 3 == 0 && *separator != 0) digits[--at] = *separator;
        digits[--at] = (char)('0' + number % 10);
        count++;
        number /= 10;
    } while (number > 0);
    fs_line_put(line, &digits[at]);
}

void fs_line_number(struct fs_line *line, uint64_t number) { put_digits(line, number, ""); }
void fs_line_separated(struct fs_line *line, uint64_t number) { put_digits(line, number, ","); }

void fs_line_quoted(struct fs_line *line, const char *text)
{
    fs_line_put(line, "\"");
    line->escapes = 1;
    fs_line_put(line, text);
    line->escapes = 0;
    fs_line_put(line, "\"");
}

/* ---- addresses ---- */

static uint16_t find_host(const union fs_closed_address *address, char host[INET6_ADDRSTRLEN])
{
    int is_four = address->any.sa_family == AF_INET;
    const void *bytes = is_four ? (const void *)&address->four.sin_addr : &address->six.sin6_addr;
    if (inet_ntop(address->any.sa_family, bytes, host, INET6_ADDRSTRLEN) == NULL) host[0] = 0;
    return ntohs(is_four ? address->four.sin_port : address->six.sin6_port);
}

static int is_known(const union fs_closed_address *address)
{
    return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

void fs_line_address(struct fs_line *line, const union fs_closed_address *address)
{
    char host[INET6_ADDRSTRLEN];
    if (!is_known(address)) {
        fs_line_put(line, "?");
        return;
    }
    uint16_t port = find_host(address, host);
    int is_long = strchr(host, ':') != NULL;
    fs_line_put(line, is_long ? "[" : "");
    fs_line_put(line, host);
    fs_line_put(line, is_long ? "]:" : ":");
    fs_line_number(line, port);
}

static void put_parts(struct fs_line *line, const union fs_closed_address *address, const char *quote)
{
    char host[INET6_ADDRSTRLEN];
    uint16_t port = find_host(address, host);
    fs_line_put(line, quote);
    fs_line_put(line, host);
    fs_line_put(line, quote);
    fs_line_put(line, ", ");
    fs_line_number(line, port);
    if (address->any.sa_family != AF_INET6) return;
    fs_line_put(line, ", ");
    fs_line_number(line, ntohl(address->six.sin6_flowinfo));
    fs_line_put(line, ", ");
    fs_line_number(line, address->six.sin6_scope_id);
}

void fs_line_tuple(struct fs_line *line, const union fs_closed_address *address)
{
    if (!is_known(address)) {
        fs_line_put(line, "None");
        return;
    }
    fs_line_put(line, "(");
    put_parts(line, address, "'");
    fs_line_put(line, ")");
}

void fs_line_list(struct fs_line *line, const union fs_closed_address *address)
{
    if (!is_known(address)) {
        fs_line_put(line, "null");
        return;
    }
    fs_line_put(line, "[");
    put_parts(line, address, "\"");
    fs_line_put(line, "]");
}

/* ---- the path and the reason ---- */

struct wording {
    const char *reason, *detail;
};

static const struct wording whys[] = {
    [FS_WHY_YOUNG] = {"not_yet", "it has not carried as much yet"},
    [FS_WHY_LISTENING] = {"not_yet", "this end listens, and the other one has not come yet"},
    [FS_WHY_OFFERED] = {"not_yet", "this end has offered memory, and the other one has not taken it yet"},
    [FS_WHY_ATTACHED] = {"joined", ""},
    [FS_WHY_NOBODY] = {"peer_did_not_join", "nobody was found at the other end"},
    [FS_WHY_UNANSWERED] = {"peer_did_not_join", "nobody took the memory that was offered"},
    [FS_WHY_BUSY] = {"not_yet", "several threads were within calls"},
    [FS_WHY_SHARED] = {"not_yet", "several processes hold this end"},
    [FS_WHY_WATCHED] = {"descriptor_watched", "somebody polls the number whom fastsock does not see"},
    [FS_WHY_MANY] = {"no_descriptors", "too many connections looked for their other ends at once"},
    [FS_WHY_RESOURCES] = {"no_memory", "there was no memory, or no number was free"},
    [FS_WHY_TAKEN] = {"peer_declined", "another process has the connection's name"},
    [FS_WHY_STRANGE] = {"peer_version", "what came was no offer, or one of another version"},
    [FS_WHY_DISAGREE] = {"peer_declined", "the counters of both ends are not those of one connection"},
    [FS_WHY_OTHER_USER] = {"other_user", ""},
    [FS_WHY_OTHER_HOST] = {"peer_not_local", ""},
    [FS_WHY_ITSELF] = {"peer_not_local", "the socket is connected to itself"},
    [FS_WHY_DECLINED] = {"peer_did_not_join", "nobody took the memory that was offered again and again"},
    [FS_WHY_ENDED] = {"not_yet", "an end has shut down a direction"},
    [FS_WHY_FOREIGN] = {"descriptor_taken",
                        "other code has sent or received, or something went over it that only TCP carries"},
    [FS_WHY_OPTIONS] = {"descriptor_taken", "it has options that only TCP serves"},
    [FS_WHY_UNCOUNTED] = {"system_error", "the kernel does not tell how many bytes went over it"},
    [FS_WHY_REFUSED] =
        {"system_error",
         "the kernel refuses calls that memory needs (seccomp), or code calls past fastsock (RTLD_DEEPBIND, dlmopen)"},
    [FS_WHY_LEFT] = {"not_yet", ""},
};
static const char *const lessons[] = {
    [FS_LESSON_NONE] = "",
    [FS_LESSON_LIVES] = "as suits the lives of its listener's last connections",
    [FS_LESSON_VAIN] = "as nobody came to most of its listener's last connections that looked",
};

const char *fs_describe_role(const struct fs_closed *seen)
{
    return seen->role == FS_ROLE_ACCEPTED ? "accept" : seen->role == FS_ROLE_CONNECTED ? "connect" : "received";
}

static int is_attached(const struct fs_closed *seen)
{
    return seen->carriers.state == FS_ATTACHED || seen->carriers.state == FS_OWNED;
}

const char *fs_describe_path(const struct fs_closed *seen) { return is_attached(seen) ? "shm" : "tcp"; }

/* The rule that keeps it on TCP, or NULL. */
static const struct fs_rule *rule_of(const struct fs_closed *seen)
{
    const union fs_closed_address *listener = seen->role == FS_ROLE_ACCEPTED ? &seen->own : &seen->other;
    const struct fs_rule *rule = fs_rules_find(seen->role, &listener->any);
    return rule != NULL && !rule->has_memory ? rule : NULL;
}

const char *fs_describe_reason(const struct fs_closed *seen)
{
    if (is_attached(seen)) return whys[FS_WHY_ATTACHED].reason;
    if (rule_of(seen) != NULL) return "excluded_by_rule";
    if (fs_memory_is_off != FS_MEMORY_IS_ON) return "excluded_by_setting";
    if (seen->carriers.state == FS_RELEASED || seen->carriers.state == FS_TCP_ONLY) return "descriptor_taken";
    return whys[seen->why].reason;
}

static void put_rule(struct fs_line *line, const struct fs_rule *rule)
{
    fs_line_put(line, rule->role == FS_ROLE_ACCEPTED ? "listen " : "connect ");
    fs_line_put(line, rule->host);
    fs_line_put(line, " ");
    if (rule->first_port == 0 && rule->last_port == UINT16_MAX) {
        fs_line_put(line, "*");
    } else {
        fs_line_number(line, rule->first_port);
        if (rule->first_port != rule->last_port) {
            fs_line_put(line, "-");
            fs_line_number(line, rule->last_port);
        }
    }
    fs_line_put(line, " ");
    fs_line_put(line, rule->paths);
    fs_line_put(line, " (");
    fs_line_put(line, fs_rules_file());
    fs_line_put(line, ", line ");
    fs_line_number(line, rule->line);
    fs_line_put(line, ")");
}

static void put_threshold(struct fs_line *line, const struct fs_threshold *threshold)
{
    fs_line_put(line, "; it looks from ");
    if (threshold->calls == 1) {
        fs_line_put(line, "its first call");
    } else {
        fs_line_separated(line, threshold->calls);
        fs_line_put(line, " calls");
    }
    fs_line_put(line, " on");
    if (threshold->lesson == FS_LESSON_NONE) return;
    fs_line_put(line, ", ");
    fs_line_put(line, lessons[threshold->lesson]);
}

void fs_line_detail(struct fs_line *line, const struct fs_closed *seen)
{
    const struct fs_rule *rule = rule_of(seen);
    const char *reason = fs_describe_reason(seen);
    if (is_attached(seen)) return;
    if (rule != NULL) {
        put_rule(line, rule);
        return;
    }
    if (fs_memory_is_off != FS_MEMORY_IS_ON) {
        int is_missing = fs_memory_is_off == FS_MEMORY_LACKS_RULES;
        fs_line_put(line, is_missing ? "the rules of FASTSOCK_CONFIG did not come from `fastsock run`" : "");
        return;
    }
    fs_line_put(line, whys[seen->why].detail);
    if (seen->threshold.calls > 0 && (strcmp(reason, "not_yet") == 0 || strcmp(reason, "peer_did_not_join") == 0))
        put_threshold(line, &seen->threshold);
}

/* The reason, and the detail between those two. */
void fs_line_reason(struct fs_line *line, const struct fs_closed *seen, const char *opens, const char *closes)
{
    fs_line_put(line, fs_describe_reason(seen));
    size_t before = line->length;
    fs_line_put(line, opens);
    size_t begun = line->length;
    fs_line_detail(line, seen);
    if (line->length == begun) line->length = before;
    else fs_line_put(line, closes);
}

/* ---- to whom ---- */

void fs_write_line(int file, struct fs_line *line)
{
    int before = errno;
    sigset_t fatal, others, pending;
    struct timespec at_once = {0, 0};
    sigemptyset(&fatal);
    sigaddset(&fatal, SIGPIPE);
    sigaddset(&fatal, SIGXFSZ); /* RLIMIT_FSIZE */
    line->bytes[line->length++] = '\n';
    pthread_sigmask(SIG_BLOCK, &fatal, &others);
    sigpending(&pending);
    int error = fs_next.write(file, line->bytes, line->length) < 0 ? errno : 0;
    int number = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    sigemptyset(&fatal);
    if (number != 0) sigaddset(&fatal, number);
    if (number != 0 && !sigismember(&pending, number)) sigtimedwait(&fatal, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    errno = before;
}

static struct stat at_first; /* st_nlink 0: there was none */

__attribute__((constructor)) static void note_standard_error(void)
{
    int before = errno;
    if (fstat(STDERR_FILENO, &at_first) != 0) memset(&at_first, 0, sizeof at_first);
    errno = before;
}

/* The same file as at the start; a terminal; or what is opened for appending, as a log.  Another file may hold data. */
static int is_for_people(void)
{
    struct stat now;
    if (fstat(STDERR_FILENO, &now) != 0 || (at_first.st_ino == 0 && at_first.st_dev == 0)) return 0;
    if (now.st_dev == at_first.st_dev && now.st_ino == at_first.st_ino) return 1;
    if (S_ISCHR(now.st_mode)) return 1;
    return S_ISREG(now.st_mode) && fs_next.fcntl(STDERR_FILENO, F_GETFL, NULL) & O_APPEND;
}

void fs_line_print(struct fs_line *line)
{
    int before = errno;
    if (is_for_people()) fs_write_line(STDERR_FILENO, line);
    errno = before;
}
