/* What all scenes share.  A scene has two ends of one connection, in two processes: `here` says what it sees, `there` does. */
#ifndef SCENE_H
#define SCENE_H

#include <stddef.h>

struct scene {
    const char *name;
    void (*here)(int number), (*there)(int number);
};

#define SCENE(name) {#name, name##_here, name##_there}

extern int gate[2]; /* a pipe: the other end goes on */

void die(const char *what);
void say(const char *what, long result); /* one line, with the error's name if it is negative */
void put(int number, const char *text);
void get(int number, size_t length);
void answer(int number, int rounds, size_t length, const char *text); /* gets so much and puts the text; then the end */
void handle(int signal, int flags);                                   /* by a handler that does nothing */
void await_end(int number);
void await_bytes(int number, int wanted); /* unread ones */

#endif
