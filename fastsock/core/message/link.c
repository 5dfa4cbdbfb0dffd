#include "inside.h"
#include <errno.h>
void fs_link_lost(struct fs_engine *e, struct fs_link *l) { (void)e; (void)l; }
int fs_link_busy(const struct fs_link *l) { (void)l; return 0; }
void fs_link_goodbye(struct fs_engine *e, struct fs_link *l) { (void)e; (void)l; }
void fs_link_abandon_descriptor(struct fs_link *l) { (void)l; }
void fs_link_free(struct fs_link *l) { (void)l; }
const char *fs_link_path(const struct fs_link *l) { (void)l; return ""; }
int fs_links_progress(struct fs_engine *e) { (void)e; return 0; }
int fs_links_have_work(const struct fs_engine *e) { (void)e; return 0; }
int fs_links_are_near(const struct fs_engine *e) { (void)e; return 0; }
int fs_links_watch(struct fs_engine *e, struct pollfd *l, int m) { (void)e; (void)l; (void)m; return 0; }
void fs_links_look(struct fs_engine *e) { (void)e; }
int fs_protocol_send(struct fs_engine *e, struct fs_request *r, struct fs_link *l) { (void)e; (void)r; (void)l; return 0; }
void fs_protocol_receive(struct fs_engine *e, struct fs_request *r, struct fs_message *m) { (void)e; (void)r; (void)m; }
int fs_protocol_cancel(struct fs_engine *e, struct fs_request *r, struct fs_link *l) { (void)e; (void)r; (void)l; return 0; }
int fs_protocol_abandon_send(struct fs_engine *e, struct fs_request *r, struct fs_link *l) { (void)e; (void)r; (void)l; return 1; }
int fs_protocol_abandon_receive(struct fs_engine *e, struct fs_request *r) { (void)e; (void)r; return 1; }
void fs_protocol_consumed(struct fs_engine *e, const struct fs_message *m) { if (m->charged && e->peers[m->envelope.source].state==FS_LOCAL) e->peers[m->envelope.source].buffered -= m->envelope.length + FS_MESSAGE_COST; }
int fs_engine_attach_end(struct fs_engine *e, int p, struct fs_end *x, int d) { (void)e; (void)p; (void)x; (void)d; return -EINVAL; }
int fs_engine_attach_descriptor(struct fs_engine *e, int p, int d) { (void)e; (void)p; (void)d; return -EINVAL; }
