/* The rules of v010_adapter/events/turns.py and of the records, with one id in one place of the file `turns`. See README.md.
   Build options (-D): N adapters, SCEN, KILLS, STOPS, LOSSES, KEEPS, FAILPOL, ADJ, HOLD, STRICT; and what breaks a rule:
   OLDER, FAILED, LATENOTES, UNSEEN, FIRSTLOOK, NOLATER, ERASE, TIMED, UNSTOPPED, KEEPERLESS, UNLOST. */
#ifndef N
#define N 2
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef KEEPS
#define KEEPS 1
#endif
#ifndef FAILPOL
#define FAILPOL 0
#endif
#ifndef ADJ
#define ADJ 0
#endif
#ifndef HOLD
#define HOLD 0
#endif
#ifdef STRICT      /* P4 also for an adapter that was stopped */
#define EXCUSED 0
#else
#define EXCUSED 1
#endif
#ifndef SCEN
#define SCEN 1
#endif
/* kinds of events */
#define C 0
#define U 1
#define S 2
#define R 3
#if SCEN==1      /* create, stop */
#define E 2
#define KIND(e) ((e)==0 -> C : S)
#define LIFE(e) 0
#define LIVES 1
#elif SCEN==2    /* create, update, update, stop */
#define E 4
#define KIND(e) ((e)==0 -> C : ((e)==3 -> S : U))
#define LIFE(e) 0
#define LIVES 1
#elif SCEN==3    /* two lives: create, stop, create, stop */
#define E 4
#define KIND(e) ((e)%2==0 -> C : S)
#define LIFE(e) ((e)/2)
#define LIVES 2
#elif SCEN==4    /* create, stop, remove */
#define E 3
#define KIND(e) ((e)==0 -> C : ((e)==1 -> S : R))
#define LIFE(e) 0
#define LIVES 1
#endif
#define ISEND(e) (KIND(e)>=S)
#define CE(l) (LIVES==2 -> 2*(l) : 0)
#define NONE 15
#if E==2
#define NOINB(a) (inb[(a)*E]+inb[(a)*E+1]==0)
#elif E==3
#define NOINB(a) (inb[(a)*E]+inb[(a)*E+1]+inb[(a)*E+2]==0)
#else
#define NOINB(a) (inb[(a)*E]+inb[(a)*E+1]+inb[(a)*E+2]+inb[(a)*E+3]==0)
#endif

/* the file `turns`: one place */
byte n_ev=NONE, n_by=NONE, n_at=0; byte n_st=0;   /* 0 none 1 BEGUN 2 ANSWERED 3 FAILED */
/* the lock of the id, counted */
byte lk=NONE, lc=0;
/* the record */
bool r_owed=0; byte r_at=0, r_life=0;
byte clk=1;
/* adapters */
bool lost[N], alive[N], stopped[N], conn[N], joined[N], wasst[N], hit[N], everhit[N];
byte fl[N], qst[N], alones[N]; bool seen[N];
byte rj[N];                                /* a delete without an event: 0 1 waiting 2 runs */
/* jobs */
#define X(a,e) ((a)*E+(e))
byte js[N*E];   /* 0 none 1 queued 2 taken 3 noted 4 fed 5 ended */
byte an[N*E];   /* 0 no 1 sent, not noted 2 over */
byte ansok[N*E];/* the answer: 1 ok 2 failure */
bool intime[N*E], emp[N*E], he[N*E], inb[N*E], tout[N*E], heard[N*E];
byte fate[N*E]; /* 0 none 1 MINE 2 REPEAT 3 DONE 4 PAST */
byte flo[N*E], lat[N*E], at[N*E], came[N*E], qui[N*E], toat[N*E];
bool readlate[N*E];
/* the runtime */
byte ev=NONE, asked=NONE; byte living=NONE; bool evfail[E], over=0; byte begun[LIVES], ended[LIVES];
/* the hold of the create: who has the container, whether it was refused, whether `start` has come, whether the program has
   been executed, and whether the event of its end is over */
byte held=NONE; bool refused=0, begins=0, ran=0, endover=0;
/* ghosts */
byte ncreate[E], ndel[LIVES], nsent[E]; bool waited[E], cutnote, cutdel[LIVES], cutans[E], got_well[E];
byte kills=KILLS, stops=STOPS, losses=LOSSES;

/* an older note does not replace a younger one; of an event that was read too late, no note replaces one that perhaps is younger */
#ifdef OLDER
#define YOUNGER(t_) false
#else
#define YOUNGER(t_) (n_by!=NONE && n_at>(t_))
#endif
#ifdef LATENOTES
#define BEFORE(a_,e_,t_) (t_)
#else
#define BEFORE(a_,e_,t_) (readlate[X(a_,e_)] -> qui[X(a_,e_)] : (t_))
#endif
#define writenote(e_,t_,a_,s_) if :: YOUNGER(BEFORE(a_,e_,t_)) -> skip :: else -> n_ev=e_; n_at=t_; n_by=a_; n_st=s_ fi
/* a failure is noted with the time at which its event came here: it is over for those whose time was up by then */
#define SENT(a_,e_) (ansok[X(a_,e_)]==1 -> at[X(a_,e_)] : came[X(a_,e_)])
/* st: what the note of another adapter tells a: 0 none 1 BEGUN 2 ANSWERED 3 FAILED 4 LATER */
inline noteof(a_,e_) {
  st=0;
  if
  :: n_by==NONE || n_by==a_ -> skip
  :: else ->
     if
     :: KIND(n_ev)==KIND(e_) -> if :: n_at>flo[X(a_,e_)] -> st=n_st :: else fi
     :: else -> if :: n_at>lat[X(a_,e_)] -> st=4 :: else fi
     fi
  fi;
#ifndef FAILED
  if :: st==3 && tout[X(a_,e_)] && n_at>=toat[X(a_,e_)] -> st=4 :: else fi;   /* the runtime has gone on without a: it is this event that has failed */
#endif
#ifdef NOLATER
  if :: st==4 -> st=0 :: else fi
#endif
}
inline others(a_) { sh=0; oi=0; do :: oi<N -> if :: oi!=a_ && alive[oi] && joined[oi] -> sh=1 :: else fi; oi++ :: else -> break od; oi=0 }
/* a look: others have joined, or a_ is alone from now on */
inline look(a_) { others(a_);
  if
  :: sh -> seen[a_]=0
  :: else -> if :: !seen[a_] -> seen[a_]=1; clk++; alones[a_]=clk :: else fi
  fi }
/* others have got the event: they have joined, or one has gone since it had not come */
inline got(a_,e_) { look(a_); if :: qui[X(a_,e_)]<alones[a_] -> sh=1 :: else fi }
/* shared: others may have got it; of those that have gone, one may have begun the first event after the look */
#ifdef FIRSTLOOK
#define shared(a_,e_) got(a_,e_)
#else
inline shared(a_,e_) { got(a_,e_); if :: flo[X(a_,e_)]<alones[a_] -> sh=1 :: else fi }
#endif
/* a hold ends: the container is let go, or refused */
inline endhold(a_,ok_) {
  if
  :: HOLD && held==a_ ->
     held=NONE; printf("HOLD of A%d ends: %d\n",a_,ok_);
     if
     :: ok_ -> if :: begins -> execute(a_) :: else fi
     :: else -> refused=1
     fi
  :: else
  fi }
/* the plugins are done */
inline done(a_,e_) {
  if
  :: HOLD && held==a_ && KIND(e_)==C -> assert(ncreate[e_]>0 || cutnote || an[X(a_,e_)]==2 && !intime[X(a_,e_)]); endhold(a_,1)     /* H3 */
  :: else
  fi }
inline execute(a_) {
  assert(!refused && !ran);                                                                /* H1 */
  assert(!endover || (a_<N && (everhit[a_] || lost[a_])));                                 /* H2 */
  ran=1; printf("THE PROGRAM RUNS\n") }
inline unlock(a_) { assert(lk==a_ && lc>0); lc--; if :: lc==0 -> lk=NONE :: else fi }
inline first(a_) { f=0; do :: f<E && (js[X(a_,f)]==0 || js[X(a_,f)]==5) -> f++ :: else -> break od }

proctype Adapter(byte a) {
  byte e, f, st, oi, need; bool sh, late;
  do
  /* reads the next event */
  :: atomic { alive[a] && !stopped[a] && !(NOINB(a)) ->
     e=0; do :: !inb[X(a,e)] -> e++ :: else -> break od;
     inb[X(a,e)]=0; clk++; at[X(a,e)]=clk; came[X(a,e)]=clk; printf("A%d reads %d at %d, timed out %d, conn %d\n",a,e,clk,tout[X(a,e)],conn[a]);
     qui[X(a,e)]=(wasst[a] -> qst[a] : clk-1);
     late=tout[X(a,e)];
     if :: wasst[a] && !late -> if :: late=1 :: skip fi :: else fi;
     flo[X(a,e)]=fl[a];
     if :: !late -> fl[a]=clk :: else -> if :: qui[X(a,e)]>fl[a] -> fl[a]=qui[X(a,e)] :: else fi fi;
     lat[X(a,e)]=fl[a];
     heard[X(a,e)]=conn[a];
     if
     :: !conn[a] && !ISEND(e) -> skip
     :: else ->
        need=1; readlate[X(a,e)]=0;
        if
        :: tout[X(a,e)] ->
           got(a,e);
           if
           :: sh ->
              if :: n_by!=NONE && n_by!=a && KIND(n_ev)==KIND(e) && n_at>fl[a] && (n_at>flo[X(a,e)]) -> fl[a]=n_at :: else fi;
              if :: !ISEND(e) -> need=0 :: else -> readlate[X(a,e)]=1 fi
           :: else
           fi
        :: else
        fi;
#ifndef UNSTOPPED
        if :: ISEND(e) -> endhold(a,0) :: else fi;
#endif
        if :: need -> js[X(a,e)]=1; an[X(a,e)]=0; fate[X(a,e)]=0; emp[X(a,e)]=0; he[X(a,e)]=0 :: else fi
     fi;
     /* the connection has ended: unanswered events are over */
     if
     :: NOINB(a)
        -> wasst[a]=0
     :: else
     fi; e=0; late=0; need=0; sh=0 }
  /* it looks once a second */
  :: atomic { alive[a] && !stopped[a] && joined[a] && !seen[a] -> look(a); sh=0; oi=0 }
  /* the runtime has closed the connection: unanswered turns end, waiting creates do not start */
  :: atomic { alive[a] && !stopped[a] && joined[a] && !conn[a] && NOINB(a)
      -> joined[a]=0; e=0;
#ifndef UNLOST
     endhold(a,!FAILPOL);
#endif
     do
     :: e<E ->
        if :: js[X(a,e)]>0 && an[X(a,e)]<2 ->
              if :: he[X(a,e)] -> he[X(a,e)]=0; unlock(a) :: else fi;
              an[X(a,e)]=2; intime[X(a,e)]=0;
              if :: js[X(a,e)]==1 && !ISEND(e) -> js[X(a,e)]=5 :: else fi
           :: else fi;
        e++
     :: else -> break
     od; e=0 }
  /* the job starts: lock and take */
  :: atomic { alive[a] && !stopped[a] && (lk==NONE || lk==a) && rj[a]!=2 ->
     first(a);
     if
     :: f<E && js[X(a,f)]==1 ->
        lk=a; lc++; js[X(a,f)]=2; printf("A%d takes %d; note: ev %d by %d at %d st %d; floor %d later %d\n",a,f,n_ev,n_by,n_at,n_st,flo[X(a,f)],lat[X(a,f)]);
        shared(a,f);
        if
        :: !sh -> fate[X(a,f)]=1
        :: else ->
           noteof(a,f);
           if
           :: st!=0 || fate[X(a,f)]==0 -> fate[X(a,f)]=(st==0 -> 1 : (st==1 -> 2 : (st==2 -> 3 : (st==3 -> 1 : 4))))
           :: else
           fi;
           if
           :: fate[X(a,f)]<=2 ->
              if :: st==1 && fate[X(a,f)]==2 -> at[X(a,f)]=n_at :: else fi;
              writenote(f,(an[X(a,f)]==2 && intime[X(a,f)] -> SENT(a,f) : at[X(a,f)]),a,(an[X(a,f)]==2 && intime[X(a,f)] -> (ansok[X(a,f)]==1 -> 2 : 3) : 1));
              if :: an[X(a,f)]<2 -> he[X(a,f)]=1; lc++ :: else fi
           :: else
           fi
        fi
     :: else
     fi; f=0; st=0; sh=0 }
  /* it works */
  :: atomic { alive[a] && !stopped[a] ->
     first(a);
     if
     :: f<E && js[X(a,f)]==2 && !ISEND(f) ->
        need=(fate[X(a,f)]<=2) && !emp[X(a,f)];
        if
        :: need && fate[X(a,f)]==2 ->
           if :: !ADJ && KIND(f)==C && r_owed && r_at>=at[X(a,f)] -> need=0 :: else fi;
           e=f+1; do :: e<E -> if :: ISEND(e) && js[X(a,e)]>0 && js[X(a,e)]<5 -> need=0 :: else fi; e++ :: else -> break od
        :: else
        fi;
        if
        :: !need -> js[X(a,f)]=5; unlock(a); done(a,f)
        :: need && KIND(f)==C -> clk++; if :: !r_owed -> r_life=LIFE(f) :: else fi; r_owed=1; r_at=clk; js[X(a,f)]=3; printf("A%d notes create %d at %d\n",a,f,clk)
        :: need && KIND(f)==U -> js[X(a,f)]=3
        fi
     :: f<E && js[X(a,f)]==3 -> ncreate[f]++; js[X(a,f)]=4; printf("A%d RUNS CREATE %d (fate %d)\n",a,f,fate[X(a,f)]);
        if :: KIND(f)==C && !ADJ || KIND(f)==U && KILLS+STOPS+LOSSES==0 -> assert(ncreate[f]<=1 || (everhit[a] && kills<KILLS)) :: else fi        /* P2; a stop here and a kill there: README, 1 */
     :: f<E && js[X(a,f)]==4 && !ISEND(f) -> js[X(a,f)]=5; unlock(a); done(a,f)
     :: f<E && js[X(a,f)]==2 && ISEND(f) ->
#ifdef TIMED
        need = r_owed && r_at < (tout[X(a,f)] -> qui[X(a,f)]+1 : at[X(a,f)]);
#else
        need = r_owed && fate[X(a,f)]!=4;
#endif
        if
        :: need -> js[X(a,f)]=4; ndel[r_life]++; printf("A%d RUNS DELETE of life %d at event %d (fate %d)\n",a,r_life,f,fate[X(a,f)]);
           assert(ended[r_life] || (EXCUSED && everhit[a]));                               /* P4 */
           assert(ndel[r_life]<=1 || cutdel[r_life] || ncreate[CE(r_life)]+cutnote>=ndel[r_life])                          /* P3 */
        :: else -> js[X(a,f)]=5; unlock(a)
        fi
     :: f<E && js[X(a,f)]==4 && ISEND(f) -> r_owed=0; js[X(a,f)]=5; unlock(a)
     :: else
     fi; f=0; e=0; need=0 }
  /* a delete without an event */
  :: atomic { alive[a] && !stopped[a] && rj[a]==1 && (lk==NONE || lk==a) ->
     first(a);
     if
     :: f==E -> if :: r_owed -> lk=a; lc++; rj[a]=2; ndel[r_life]++; printf("A%d RUNS DELETE of life %d without an event\n",a,r_life);
                        assert(ended[r_life] || (EXCUSED && everhit[a]));                  /* P4 */
                        assert(ndel[r_life]<=1 || cutdel[r_life] || ncreate[CE(r_life)]+cutnote>=ndel[r_life])             /* P3 */
                :: else -> rj[a]=0 fi
     :: else
     fi; f=0 }
  :: atomic { alive[a] && !stopped[a] && rj[a]==2 -> r_owed=0; rj[a]=0; unlock(a) }
  /* answers: when the job has ended; early when its time is up (it is blocked, or a plugin is slow); empty, when served elsewhere */
  :: atomic { alive[a] && !stopped[a] && ev<E && js[X(a,ev)]>0 && an[X(a,ev)]==0 ->
     e=ev; need=0; first(a);
     if
     :: js[X(a,e)]==5 -> need=1
     :: (js[X(a,e)]==3 || js[X(a,e)]==4) -> need=2
     :: js[X(a,e)]==1 && (f<e || (lk!=NONE && lk!=a)) ->
        shared(a,e); noteof(a,e);
        if
        :: sh && (st==2 || st==4) ->                     /* another adapter has answered it: seen at once */
           fate[X(a,e)]=(st==2 -> 3 : 4); if :: !ISEND(e) -> emp[X(a,e)]=1 :: else fi; need=3
        :: else ->                                       /* its time is up: what it waits for is slow, or hangs */
           if
           :: f<e && (js[X(a,f)]==3 || js[X(a,f)]==4) -> need=2
           :: f>=e && lk!=NONE && lk!=a ->
              oi=0; do :: oi<E && !(js[X(lk,oi)]==3 || js[X(lk,oi)]==4) -> oi++ :: else -> break od;
              if :: oi<E || stopped[lk] || rj[lk]==2 -> need=2 :: else fi;
              /* a note takes microseconds, a time that is up seconds */
              oi=0; do :: oi<E && an[X(lk,oi)]!=1 -> oi++ :: else -> break od;
              if :: oi<E && !stopped[lk] -> need=0 :: else fi; oi=0
           :: else
           fi
        fi
     :: else
     fi;
     if
     :: need>0 ->
        if :: need==2 && js[X(a,e)]==1 -> waited[e]=1 :: else fi;   /* its time was up before its turn: a slow plugin, or one that hangs */
        if :: HOLD && need==2 && KIND(e)==C && held==NONE && !refused && !begins -> held=a; printf("A%d HOLDS\n",a) :: else fi;
        an[X(a,e)]=1; ansok[X(a,e)]=(need==2 && FAILPOL && !ISEND(e) && held!=a -> 2 : 1);
        intime[X(a,e)]=(conn[a] && heard[X(a,e)] && !tout[X(a,e)]);
        if
        :: intime[X(a,e)] && ansok[X(a,e)]==1 && need!=3 && fate[X(a,e)]<=2 && !emp[X(a,e)] && KIND(e)==C ->
             nsent[e]++
        :: else
        fi;
        if :: intime[X(a,e)] && ansok[X(a,e)]==2 -> evfail[e]=1 :: else fi;
        printf("A%d answers %d: how %d, ok %d, in time %d, fate %d\n",a,e,need,ansok[X(a,e)],intime[X(a,e)],fate[X(a,e)]); if :: intime[X(a,e)] && asked==a -> asked=NONE :: else fi
     :: else
     fi; e=0; f=0; need=0; sh=0; st=0 }
  :: atomic { alive[a] && !stopped[a] ->                                       /* an answer to an event that is over */
     e=0; do :: e<E && !(js[X(a,e)]>0 && an[X(a,e)]==0 && e!=ev) -> e++ :: else -> break od;
     first(a);
     if
     :: e<E && (js[X(a,e)]>=3 || f<e || (lk!=NONE && lk!=a)) -> an[X(a,e)]=1; ansok[X(a,e)]=1; printf("A%d answers %d, which is over\n",a,e);
        intime[X(a,e)]=0
     :: else
     fi; e=0; f=0 }
  /* the answer is noted */
  :: atomic { alive[a] && !stopped[a] ->
     e=0; do :: e<E && an[X(a,e)]!=1 -> e++ :: else -> break od;
     if
     :: e<E ->
        an[X(a,e)]=2; printf("A%d notes its answer to %d: hold %d in time %d\n",a,e,he[X(a,e)],intime[X(a,e)]);
#ifdef UNSEEN
        if :: tout[X(a,e)] && conn[a] -> intime[X(a,e)]=1 :: else fi;
#endif
        if
        :: he[X(a,e)] ->
           he[X(a,e)]=0;
           if
           :: intime[X(a,e)] ->
#ifdef ERASE
              if :: ansok[X(a,e)]==2 -> n_by=NONE; n_ev=NONE; n_st=0; n_at=0 :: else -> writenote(e,at[X(a,e)],a,2) fi
#else
              writenote(e,SENT(a,e),a,(ansok[X(a,e)]==1 -> 2 : 3))
#endif
           :: else
           fi;
           unlock(a)
        :: !he[X(a,e)] && js[X(a,e)]==1 && fate[X(a,e)]==0 && intime[X(a,e)] ->
           shared(a,e);
           if
           :: sh ->
              noteof(a,e);
              if :: st==1 -> at[X(a,e)]=n_at; fate[X(a,e)]=2 :: else fi;
              if :: st==0 || st==1 -> writenote(e,SENT(a,e),a,(ansok[X(a,e)]==1 -> 2 : 3)) :: else fi
           :: else
           fi
        :: else
        fi
     :: else
     fi; e=0; sh=0; st=0 }
#if HOLD
  /* the limit of the hold */
  :: atomic { alive[a] && !stopped[a] && held==a -> endhold(a,!FAILPOL) }
#endif
  :: atomic { over && !stopped[a] && (!alive[a] || rj[a]==0) ->
     e=0; do :: e<E && (!alive[a] || (!inb[X(a,e)] && an[X(a,e)]!=1 && (js[X(a,e)]==0 || (js[X(a,e)]==5 && an[X(a,e)]==2)))) -> e++ :: else -> break od;
     if :: e==E -> e=0; break :: else -> e=0 fi }
  od
}

inline join(a_) {
  joined[a_]=1; conn[a_]=1; clk++; fl[a_]=clk; printf("JOIN A%d at %d\n",a_,clk); wasst[a_]=0;
  i=0; do :: i<E -> inb[X(a_,i)]=0; i++ :: else -> break od; i=0;
  if :: r_owed && living==NONE && rj[a_]==0 -> rj[a_]=1 :: else fi
}

proctype Runtime() {
  byte k, i;
  do
  :: ev==NONE || asked==NONE ->
     /* between events: who is apart joins, or not yet */
     k=0;
     do
     :: atomic { k<N -> if :: alive[k] && !stopped[k] && !joined[k] && !conn[k] -> if :: join(k) :: skip fi :: else fi; k++ }
     :: else -> break
     od;
     atomic { ev=(ev==NONE -> 0 : ev+1);
     if
     :: ev==E -> break
     :: else
     fi;
     if :: ISEND(ev) -> living=NONE; ended[LIFE(ev)]=1 :: KIND(ev)==C -> living=LIFE(ev); begun[LIFE(ev)]=1 :: else fi };
     k=0;
     do
     :: k<N && !evfail[ev] ->
        if
        :: atomic { alive[k] && joined[k] && conn[k] ->
           clk++; inb[X(k,ev)]=1; asked=k; printf("EVENT %d -> A%d at %d\n",ev,k,clk); tout[X(k,ev)]=0; hit[k]=stopped[k] };
           if
           :: atomic { asked==NONE -> if :: !hit[k] && !stopped[k] -> got_well[ev]=1 :: else fi }
           :: atomic { asked!=NONE && (!alive[k] || !conn[k]) -> asked=NONE }
           :: atomic { asked!=NONE && alive[k] && conn[k] && hit[k] -> asked=NONE; tout[X(k,ev)]=1; clk++; toat[X(k,ev)]=clk; printf("A%d is late for %d\n",k,ev);
                if :: KEEPS :: !KEEPS -> conn[k]=0 fi }
           fi
        :: else
        fi;
        k++
     :: else -> break
     od; k=0;
#if HOLD
     atomic {                                                                 /* `start`, or the end is over */
     if
     :: KIND(ev)==C && !evfail[ev] -> begins=1; if :: held==NONE && !refused -> execute(N) :: else fi
     :: ISEND(ev) -> endover=1
     :: else
     fi }
#endif
  od;
  /* the end: faults are over, all jobs end, a last look */
  over=1
}

proctype Faults() {
  byte a, i;
  do
  :: atomic { kills>0 && !over -> kills--; if :: a=0 :: a=1
#if N>2
     :: a=2
#endif
     fi;
     if :: alive[a] -> printf("KILL A%d\n",a);
        i=0;
        do
        :: i<E ->
           if :: js[X(a,i)]==3 -> cutnote=1 :: else fi;
           if :: js[X(a,i)]==4 && ISEND(i) -> cutdel[r_life]=1 :: else fi;
           if :: an[X(a,i)]==1 || (js[X(a,i)]>0 && an[X(a,i)]==0) -> cutans[i]=1 :: else fi;
           js[X(a,i)]=0; an[X(a,i)]=0; he[X(a,i)]=0; inb[X(a,i)]=0; fate[X(a,i)]=0; i++
        :: else -> break
        od; i=0;
        if :: rj[a]==2 -> cutdel[r_life]=1 :: else fi; rj[a]=0;
        if :: lk==a -> lk=NONE; lc=0 :: else fi;
#ifndef KEEPERLESS
        everhit[a]=1; endhold(a,!FAILPOL);                                        /* the keeper */
#endif
        everhit[a]=1; hit[a]=1; joined[a]=0; conn[a]=0; stopped[a]=0; wasst[a]=0; seen[a]=0; alones[a]=0;
        if :: asked==a -> alive[a]=0 :: else -> alive[a]=0 fi
     :: else fi }
  :: atomic { !over && !alive[0] && asked!=0 -> alive[0]=1 }                  /* a service manager starts it again */
  :: atomic { !over && !alive[1] && asked!=1 -> alive[1]=1 }
  :: atomic { stops>0 && !over -> stops--; if :: a=0 :: a=1 fi;
     if :: alive[a] && !stopped[a] -> i=0; do :: i<E -> if :: an[X(a,i)]==1 -> cutans[i]=1 :: else fi; i++ :: else -> break od; i=0; stopped[a]=1; printf("STOP A%d at %d\n",a,clk); hit[a]=1; everhit[a]=1; qst[a]=clk; wasst[a]=1 :: else fi }
#if HOLD
  :: atomic { held<N && stopped[held] -> i=held; endhold(i,!FAILPOL); i=0 }       /* the keeper, at the limit */
#endif
  :: atomic { stopped[0] -> stopped[0]=0; printf("CONT A0\n") }
  :: atomic { stopped[1] -> stopped[1]=0; printf("CONT A1\n") }
  :: atomic { losses>0 && !over -> losses--; if :: a=0 :: a=1 fi; if :: conn[a] -> conn[a]=0; printf("LOSS A%d\n",a); hit[a]=1; lost[a]=1 :: else fi }
  :: atomic { over && !stopped[0] && !stopped[1] -> break }
  od
}

init {
  byte i, k;
  atomic {
    do :: k<N -> alive[k]=1; joined[k]=1; conn[k]=1; fl[k]=1; k++ :: else -> break od; k=0;
    run Runtime(); run Faults();
    do :: k<N -> run Adapter(k); k++ :: else -> break od
  };
  /* at the end: every create that an adapter without any fault got and that was not refused has run */
  (over && _nr_pr==1);
  assert(held==NONE);                                                                     /* H4 */
  i=0;
  do
  :: i<E ->
     if
     :: KIND(i)==C && got_well[i] && !evfail[i] && !refused && !cutnote && !waited[i] -> assert(ncreate[i]>=1)     /* P1 */
     :: else
     fi;
#if KILLS==0
     if
     :: ISEND(i) && got_well[i] -> assert(!r_owed || r_life!=LIFE(i))                   /* P5 */
     :: else
     fi;
#endif
#if ADJ
     if
     :: KIND(i)==C && !evfail[i] && !cutans[i] -> assert(nsent[i]<=1)                     /* P6 */
     :: else
     fi;
     if
     :: KIND(i)==C && got_well[i] && !evfail[i] && !cutnote -> assert(nsent[i]>=1)        /* P7 */
     :: else
     fi;
#endif
     i++
  :: else -> break
  od
}
