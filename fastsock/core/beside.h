/* A process that has this core in its Python, and the preloaded library (preload/) too: the library stands aside. */
#ifndef FASTSOCK_BESIDE_H
#define FASTSOCK_BESIDE_H

/* Whether the library is there.  It takes no new connection from then on. */
int fs_be_alone(void);

#endif
