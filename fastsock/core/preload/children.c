/* It is done once, at the start, and not as programs are started.  So it holds for each way to start one: also by system() or
 * a bare system call, whose calls no door sees, and with a copy of the environment.  The entries stay where they are, and
 * the program's `environ` and main()'s third argument are the same array as ever. */
#define _GNU_SOURCE
#include "children.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libfastsock_preload.so"
#define BOOTSTRAP "/launching/_bootstrap" /* what leads Pythons to fastsock */

static int ends_with(const char *text, size_t length, const char *end)
{
    size_t wanted = strlen(end);
    return length >= wanted && memcmp(text + length - wanted, end, wanted) == 0;
}

/* The text without the parts that end so: each goes with the separator before it, or the first one with that behind it.
 * What is left is nothing: 0. */
static int drop_parts(char *text, const char *separators, const char *end)
{
    char *target = text;
    int kept = 0;
    for (const char *at = text;;) {
        size_t length = strcspn(at, separators);
        char behind = at[length];
        if (!ends_with(at, length, end)) {
            if (kept++ > 0) {
                *target = at[-1];
                target++;
            }
            memmove(target, at, length);
            target += length;
        }
        if (behind == 0) break;
        at += length + 1;
    }
    *target = 0;
    return kept > 0;
}

/* Whether the entry stays. */
static int stays(char *entry, int python_follows)
{
    static const char *const ours[] = {"FASTSOCK_CHILDREN=", "FASTSOCK_INSTALL=", "FASTSOCK_INTERPRETER="};
    static const char preload[] = "LD_PRELOAD=", search[] = "PYTHONPATH=", rules[] = "FASTSOCK_RESOLVED_RULES=";
    if (strncmp(entry, preload, sizeof preload - 1) == 0) return drop_parts(entry + sizeof preload - 1, " :", LIBRARY);
    if (strncmp(entry, rules, sizeof rules - 1) == 0) return 0;
    if (python_follows) return 1;
    if (strncmp(entry, search, sizeof search - 1) == 0) return drop_parts(entry + sizeof search - 1, ":", BOOTSTRAP);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(entry, ours[i], strlen(ours[i])) == 0) return 0;
    return 1;
}

/* A Python reads the rest at its start, and then takes it out (launching/_bootstrap). */
static int is_python(void)
{
    int found = dlsym(RTLD_DEFAULT, "Py_GetVersion") != NULL || dlsym(RTLD_DEFAULT, "PyPy_GetVersion") != NULL;
    dlerror(); /* the program did not ask */
    return found;
}

static int is_other_process(void)
{
    const char *launched = getenv("FASTSOCK_LAUNCHED");
    return launched == NULL || strtol(launched, NULL, 10) != getpid();
}

int fs_children_leave_out(void)
{
    const char *wanted = getenv("FASTSOCK_CHILDREN");
    if (wanted == NULL || strcmp(wanted, "0") != 0) return 0;
    int is_other = is_other_process(), python_follows = is_python();
    char **target = environ;
    for (char **entry = environ; *entry != NULL; entry++)
        if (stays(*entry, python_follows)) *target++ = *entry;
    *target = NULL;
    return is_other;
}
