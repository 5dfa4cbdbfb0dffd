/* The form of a text: "1 COUNT RULE... FILE".  A RULE has seven words: connect|listen, * or address/bits in hexadecimal, the
 * first port and the last one as 0-65535, 1 where it allows memory, its line in the file, its host and its paths.  One space
 * lies between two words.  FILE is all that is left. */
#define _GNU_SOURCE
#include "rules.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RULES = 100000, MOST_LINE = 100000000 };

static struct fs_rule *rules;
static size_t count;
static const char *rules_file = "";
static int has[FS_ROLE_ACCEPTED + 1];

/* ---- reading: whatever is not of the form is an error ---- */

/* The next word, which a space ends.  NULL: there is none. */
static char *take_word(char **at)
{
    char *word = *at, *end = strchr(word, ' ');
    if (end == NULL || end == word) return NULL;
    *end = 0;
    *at = end + 1;
    return word;
}

static int read_number(const char *digits, unsigned most, unsigned *number)
{
    unsigned long value = 0;
    size_t length = digits == NULL ? 0 : strlen(digits);
    if (length == 0 || length > 9 || strspn(digits, "0123456789") != length) return 0;
    for (size_t i = 0; i < length; i++) value = value * 10 + (unsigned)(digits[i] - '0');
    *number = (unsigned)value;
    return value <= most;
}

static int read_network(char *word, struct fs_rule *rule)
{
    static const char digits[] = "0123456789abcdef";
    if (word == NULL) return 0;
    rule->family = AF_UNSPEC;
    if (strcmp(word, "*") == 0) return 1;
    char *slash = strchr(word, '/');
    if (slash == NULL) return 0;
    *slash = 0;
    size_t length = strlen(word);
    if ((length != 8 && length != 32) || strspn(word, digits) != length) return 0;
    rule->family = length == 8 ? AF_INET : AF_INET6;
    for (size_t i = 0; i < length; i++) {
        unsigned char value = (unsigned char)(strchr(digits, word[i]) - digits);
        rule->address[i / 2] = (unsigned char)(rule->address[i / 2] << 4 | value);
    }
    return read_number(slash + 1, (unsigned)length * 4, &rule->bits);
}

static int read_ports(char *word, struct fs_rule *rule)
{
    unsigned first, last;
    char *dash = word == NULL ? NULL : strchr(word, '-');
    if (dash == NULL) return 0;
    *dash = 0;
    if (!read_number(word, UINT16_MAX, &first) || !read_number(dash + 1, UINT16_MAX, &last) || first > last) return 0;
    rule->first_port = (uint16_t)first;
    rule->last_port = (uint16_t)last;
    return 1;
}

static int read_rule(char **at, struct fs_rule *rule)
{
    unsigned has_memory;
    const char *direction = take_word(at);
    memset(rule, 0, sizeof *rule);
    if (direction == NULL) return 0;
    if (strcmp(direction, "connect") == 0) rule->role = FS_ROLE_CONNECTED;
    else if (strcmp(direction, "listen") == 0) rule->role = FS_ROLE_ACCEPTED;
    else return 0;
    if (!read_network(take_word(at), rule) || !read_ports(take_word(at), rule)) return 0;
    if (!read_number(take_word(at), 1, &has_memory) || !read_number(take_word(at), MOST_LINE, &rule->line)) return 0;
    rule->has_memory = (int)has_memory;
    rule->host = take_word(at);
    rule->paths = take_word(at);
    return rule->host != NULL && rule->paths != NULL;
}

static int read_all(char *at, const char *file)
{
    unsigned version, wanted;
    if (!read_number(take_word(&at), 1, &version) || version != 1) return 0;
    if (!read_number(take_word(&at), MOST_RULES, &wanted)) return 0;
    rules = calloc(wanted + 1, sizeof *rules);
    if (rules == NULL) return 0;
    for (unsigned i = 0; i < wanted; i++)
        if (!read_rule(&at, &rules[i])) return 0;
    if (strcmp(at, file) != 0) return 0;
    count = wanted;
    rules_file = at;
    for (unsigned i = 0; i < wanted; i++) has[rules[i].role] = 1;
    return 1;
}

int fs_rules_read(const char *text, const char *file)
{
    if (file == NULL) return 0;
    char *copy = text == NULL ? NULL : strdup(text); /* rules point into it */
    return copy != NULL && read_all(copy, file) ? 0 : -1;
}

/* ---- asking ---- */

const char *fs_rules_file(void) { return rules_file; }
int fs_rules_has(enum fs_role role) { return has[role]; }

struct place {
    int family;
    const unsigned char *address;
    uint16_t port;
};

/* IPv4 mapped into IPv6 is IPv4. */
static int find_place(const struct sockaddr *from, struct place *place)
{
    const struct sockaddr_in *four = (const void *)from;
    const struct sockaddr_in6 *six = (const void *)from;
    if (from->sa_family == AF_INET) {
        *place = (struct place){AF_INET, (const void *)&four->sin_addr, ntohs(four->sin_port)};
    } else if (from->sa_family == AF_INET6) {
        *place = (struct place){AF_INET6, six->sin6_addr.s6_addr, ntohs(six->sin6_port)};
        if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
            place->family = AF_INET;
            place->address += 12;
        }
    } else return 0;
    return 1;
}

static int covers(const struct fs_rule *rule, const struct place *place)
{
    unsigned whole = rule->bits / 8, rest = rule->bits % 8;
    if (rule->family == AF_UNSPEC) return 1;
    if (rule->family != place->family || memcmp(rule->address, place->address, whole) != 0) return 0;
    return rest == 0 || ((rule->address[whole] ^ place->address[whole]) >> (8 - rest)) == 0;
}

const struct fs_rule *fs_rules_find(enum fs_role role, const struct sockaddr *listener)
{
    struct place place;
    if (!has[role] || !find_place(listener, &place)) return NULL;
    for (size_t i = 0; i < count; i++) {
        const struct fs_rule *rule = &rules[i];
        if (rule->role == role && rule->first_port <= place.port && place.port <= rule->last_port &&
            covers(rule, &place))
            return rule;
    }
    return NULL;
}
