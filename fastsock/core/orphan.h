/* A process that nobody has to wait for.  It is forked twice; whoever starts it hears how it began. */
#ifndef FASTSOCK_ORPHAN_H
#define FASTSOCK_ORPHAN_H

/* `become` is called in it, answers by fs_orphan_answer(), and does not return.  `let_go` is called in the process between.
 * is_alone: the second fork has failed.  0, or the error that was answered, or a negative errno; -ECHILD: it has ended
 * without an answer. */
int fs_orphan_start(void (*become)(void *given, int answers), void *given, void (*let_go)(int is_alone));
void fs_orphan_answer(int answers, int result);

/* Everything but these: above all copies of descriptors whose last close must reach another end. */
void fs_close_all_but(const int *kept, int count);

#endif
