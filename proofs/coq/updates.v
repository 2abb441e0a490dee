(* D5: r workers each load one entry of the output, add their own x_i to it and store it, without atomics. The values
   that can remain are exactly the sums over non-empty sets of workers; with an atomic addition only the full sum is
   left. Any commutative group. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Updates.
Variables (V : zmodType) (r : nat) (x : 'I_r -> V).

(* A worker has done nothing, holds what it loaded, or has stored. *)
Inductive worker := Idle | Holds of V | Done.
Definition workers := 'I_r -> worker.
Definition set_ (w : workers) i s : workers := fun j => if j == i then s else w j.

(* One step of one worker; the entry is the first of the pair. Any schedule of any length. *)
Inductive step : V * workers -> V * workers -> Prop :=
| load m w i : w i = Idle -> step (m, w) (m, set_ w i (Holds m))
| store m w i y : w i = Holds y -> step (m, w) (y + x i, set_ w i Done).

Inductive steps : V * workers -> V * workers -> Prop :=
| steps0 s : steps s s
| stepsS s s' s'' : step s s' -> steps s' s'' -> steps s s''.

Lemma steps_trans s s' s'' : steps s s' -> steps s' s'' -> steps s s''.
Proof. by move=> h; elim: h s'' => // a b c ab _ IH d cd; apply: stepsS ab (IH _ cd). Qed.

(* m can remain: from 0, until all are done. *)
Definition remains m := exists2 w, steps (0, fun=> Idle) (m, w) & forall i, w i = Done.

(* What holds at every moment: all that is stored or held is a sum over workers that are done. *)
Definition sum_of (w : workers) (m : V) (s : {set 'I_r}) := m = \sum_(i in s) x i /\ forall i, i \in s -> w i = Done.

Definition ok (c : V * workers) :=
  (exists2 s, sum_of c.2 c.1 s & (exists i, c.2 i = Done) -> s != set0) /\
  (forall i y, c.2 i = Holds y -> exists s, sum_of c.2 y s).

Lemma step_ok c c' : step c c' -> ok c -> ok c'.
Proof.
case=> {c c'} [m w i wi|m w i y wi] [/= [s [ms sd] s0] held]; split=> /=.
- have keep j : j \in s -> set_ w i (Holds m) j = Done.
    by move=> /sd wj; rewrite /set_; case: eqP => // ji; rewrite ji wi in wj.
  exists s => // -[j]; rewrite /set_; case: eqP => // _ wj; apply: s0; by exists j.
- move=> j y; rewrite {1}/set_; case: eqP => [_ [<-]|_ /held [s' [ys s'd]]].
    exists s; split=> // j' /sd wj; rewrite /set_; case: eqP => // ji; by rewrite ji wi in wj.
  exists s'; split=> // j' /s'd wj; rewrite /set_; case: eqP => // ji; by rewrite ji wi in wj.
- have [s' [ys s'd]] := held _ _ wi.
  have is' : i \notin s' by apply/negP => /s'd; rewrite wi.
  exists (i |: s'); last by move=> _; apply/set0Pn; exists i; rewrite setU11.
  split=> [|j]; first by rewrite big_setU1 //= -ys addrC.
  by rewrite in_setU1 /set_; case: eqP => //= _ /s'd.
move=> j y'; rewrite {1}/set_; case: eqP => // _ /held [s' [ys s'd]].
by exists s'; split=> // j' /s'd wj; rewrite /set_; case: eqP.
Qed.

(* A list of workers, one after the other. *)
Lemma serial (l : seq 'I_r) m w : uniq l -> (forall i, i \in l -> w i = Idle) ->
  exists2 w', steps (m, w) (m + \sum_(i <- l) x i, w') & forall i, w' i = if i \in l then Done else w i.
Proof.
elim: l m w => [|i l IH] m w /=; first by exists w => //; rewrite big_nil addr0; apply: steps0.
move=> /andP[il ul] idle; set w1 := set_ (set_ w i (Holds m)) i Done.
have [j jl|w' run w'E] := IH (m + x i) w1 ul.
  rewrite /w1 /set_; case: eqP => [ji|_]; first by rewrite -ji jl in il.
  by apply: idle; rewrite inE jl orbT.
exists w'.
  apply: stepsS (load _ (idle i (mem_head _ _))) _; rewrite big_cons addrA.
  by apply: stepsS (store _ _) run; rewrite /set_ eqxx.
move=> j; rewrite w'E inE /w1 /set_; case: (j == i) => //=; by case: ifP.
Qed.

(* A list of workers, who all load before the first of them stores. *)
Lemma loads (l : seq 'I_r) m w : uniq l -> (forall i, i \in l -> w i = Idle) ->
  exists2 w', steps (m, w) (m, w') & forall i, w' i = if i \in l then Holds m else w i.
Proof.
elim: l w => [|i l IH] w /=; first by exists w => //; apply: steps0.
move=> /andP[il ul] idle; have [j jl|w' run w'E] := IH (set_ w i (Holds m)) ul.
  rewrite /set_; case: eqP => [ji|_]; first by rewrite -ji jl in il.
  by apply: idle; rewrite inE jl orbT.
exists w'; first exact: stepsS (load _ (idle i (mem_head _ _))) run.
move=> j; rewrite w'E inE /set_; case: (j == i) => //=; by case: ifP.
Qed.

Lemma stores (l : seq 'I_r) m y w : uniq l -> (forall i, i \in l -> w i = Holds y) ->
  exists2 w', exists m', steps (m, w) (m', w') & forall i, w' i = if i \in l then Done else w i.
Proof.
elim: l m w => [|i l IH] m w /=; first by exists w => //; exists m; apply: steps0.
move=> /andP[il ul] holds; have [j jl|w' [m' run] w'E] := IH (y + x i) (set_ w i Done) ul.
  rewrite /set_; case: eqP => [ji|_]; first by rewrite -ji jl in il.
  by apply: holds; rewrite inE jl orbT.
exists w'; first by exists m'; apply: stepsS (store _ (holds i (mem_head _ _))) run.
move=> j; rewrite w'E inE /set_; case: (j == i) => //=; by case: ifP.
Qed.

(* D5. *)
Theorem D5 m : (0 < r)%N -> remains m <-> exists2 s : {set 'I_r}, s != set0 & m = \sum_(i in s) x i.
Proof.
move=> r0; split=> [[w run fin]|[s s0 ->]].
  have : ok (m, w).
    have start : ok (0, fun=> Idle).
      split=> //=; exists set0; first by split=> [|i]; rewrite ?big_set0 ?inE.
      by case.
    by elim: run start => // a b c ab _ IH /(step_ok ab); apply: IH.
  by case=> -[s [ms _] s0] _; exists s => //; apply: s0; exists (Ordinal r0).
have [i iin] : exists i, i \in s by apply/set0Pn.
(* i and all outside s load 0; those outside store; i stores; then the rest of s, one after the other *)
have [||w1 run1 w1E] := @loads (i :: enum (~: s)) 0 (fun=> Idle) => //.
  by rewrite /= enum_uniq mem_enum inE iin.
have [|w2 [m2 run2] w2E] := @stores (enum (~: s)) 0 0 w1 (enum_uniq _).
  by move=> j jl; rewrite w1E inE jl orbT.
have hi : w2 i = Holds 0 by rewrite w2E mem_enum inE iin /= w1E mem_head.
have [|w3 run3 w3E] := @serial (enum (s :\ i)) (0 + x i) (set_ w2 i Done) (enum_uniq _).
  move=> j; rewrite mem_enum !inE => /andP[ji js].
  by rewrite /set_ (negbTE ji) w2E mem_enum inE js /= w1E !inE mem_enum inE js (negbTE ji).
exists w3.
  apply: steps_trans run1 (steps_trans run2 _); apply: stepsS (store _ hi) _.
  by move: run3; rewrite add0r (big_setD1 i iin) /= -big_enum.
move=> j; rewrite w3E mem_enum !inE /set_ w2E mem_enum inE.
by case: (j =P i) => //= ji; case: (j \in s).
Qed.

(* Non-empty sets of workers: 2^r - 1. *)
Corollary D5_count : #|[set s : {set 'I_r} | s != set0]| = (2 ^ r).-1.
Proof.
have -> : [set s : {set 'I_r} | s != set0] = [set~ set0] by apply/setP => s; rewrite !inE.
by rewrite cardsC1 -cardsT -powersetT card_powerset cardsT card_ord.
Qed.

(* With atomic additions (the second of the pair: who is done) only the full sum is left. *)
Inductive atomic : V * {set 'I_r} -> Prop :=
| atomic0 : atomic (0, set0)
| atomicS m s i : atomic (m, s) -> i \notin s -> atomic (m + x i, i |: s).

Theorem D5_atomic m : atomic (m, setT) -> m = \sum_i x i.
Proof.
have sum c : atomic c -> c.1 = \sum_(i in c.2) x i.
  elim=> {c} [|m' s i _ /= -> is']; first by rewrite big_set0.
  by rewrite big_setU1 //= addrC.
by move=> /sum /= ->; apply: eq_bigl => i; rewrite inE.
Qed.
End Updates.
