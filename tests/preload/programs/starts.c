/* What a program that this one starts gets: starts HOW COMMAND.  Prints what this one has, and runs the command by a shell.
 *
 * HOW: system; popen; spawn, fork: with `environ`; given: with main()'s third argument; bare: by a bare system call; exec.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments, char **given)
{
    if (count != 3) return 2;
    const char *how = arguments[1];
    char *words[] = {"sh", "-c", arguments[2], NULL}, line[4096];
    pid_t child = 0;
    printf("environ is %s\n", environ == given ? "given" : "another one");
    fflush(stdout);
    if (strcmp(how, "system") == 0) return system(arguments[2]) != 0;
    if (strcmp(how, "exec") == 0) return execv("/bin/sh", words);
    if (strcmp(how, "popen") == 0) {
        FILE *stream = popen(arguments[2], "r");
        while (stream != NULL && fgets(line, sizeof line, stream) != NULL) fputs(line, stdout);
        return stream == NULL || pclose(stream) != 0;
    }
    if (strcmp(how, "spawn") == 0) {
        if (posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) != 0) return 3;
    } else if ((child = fork()) == 0) {
        if (strcmp(how, "bare") == 0) syscall(SYS_execve, "/bin/sh", words, environ);
        execve("/bin/sh", words, strcmp(how, "given") == 0 ? given : environ);
        _exit(4);
    }
    int status;
    return waitpid(child, &status, 0) != child || status != 0;
}
