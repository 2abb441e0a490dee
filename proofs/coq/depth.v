(* H6: how many steps a reduction of N items takes on p' processors: each combines its chunk of c items one after the
   other, and then pairs of neighbours are combined, round after round, an odd one out waiting. The items are any; a
   tree says who is combined with whom, and its depth is the number of steps. *)
From mathcomp Require Import all_ssreflect.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Depth.
Variable T : Type.
Inductive tree := Leaf of T | Node of tree & tree.
Fixpoint leaves t := match t with Leaf x => [:: x] | Node l r => leaves l ++ leaves r end.
Fixpoint depth t := match t with Leaf _ => 0 | Node l r => (maxn (depth l) (depth r)).+1 end.
Fixpoint combines t := match t with Leaf _ => 0 | Node l r => (combines l + combines r).+1 end.

(* H6, any tree: N - 1 combines, and at least ceil(lg N) steps. *)
Theorem H6_combines t : (combines t).+1 = size (leaves t).
Proof. by elim: t => //= l IHl r IHr; rewrite size_cat -IHl -IHr addSn addnS. Qed.

Theorem H6_least t : up_log 2 (size (leaves t)) <= depth t.
Proof.
apply: up_log_min => //; elim: t => //= l IHl r IHr; rewrite size_cat expnS mul2n -addnn.
by apply: leq_add; [apply: leq_trans IHl _ | apply: leq_trans IHr _]; rewrite leq_exp2l // (leq_maxl, leq_maxr).
Qed.

(* One after the other. *)
Definition chain x (l : seq T) := foldl (fun t y => Node t (Leaf y)) (Leaf x) l.

Lemma chainP x l : leaves (chain x l) = x :: l /\ depth (chain x l) = size l.
Proof.
elim/last_ind: l => [|l y [IHl IHd]]; first by [].
by rewrite /chain foldl_rcons /= -/(chain x l) IHl IHd maxn0 size_rcons cats1.
Qed.

(* One round, and as many as are needed. *)
Fixpoint round (l : seq tree) := if l is s :: t :: l' then Node s t :: round l' else l.
Fixpoint rounds k l := if k is k'.+1 then rounds k' (round l) else l.

Lemma round_ind (P : seq tree -> Prop) :
  P [::] -> (forall t, P [:: t]) -> (forall s t l, P l -> P (s :: t :: l)) -> forall l, P l.
Proof.
move=> p0 p1 pS l; have [n] := ubnP (size l); elim: n l => // n IH [|s [|t l]] //= lt.
by apply/pS/IH; rewrite -ltnS; apply: ltnW.
Qed.

Lemma size_round l : size (round l) = uphalf (size l).
Proof. by elim/round_ind: l => //= s t l ->. Qed.

Lemma leaves_round l : flatten (map leaves (round l)) = flatten (map leaves l).
Proof. by elim/round_ind: l => //= s t l ->; rewrite catA. Qed.

(* If the first tree is the deepest it stays so, one deeper. *)
Lemma depth_round d t l : depth t = d -> all (fun s => depth s <= d) l -> 0 < size l ->
  exists t' l', [/\ round (t :: l) = t' :: l', depth t' = d.+1 & all (fun s => depth s <= d.+1) l'].
Proof.
move=> td; case: l => // s l /= /andP[sd ld] _; exists (Node t s), (round l).
split=> //=; first by rewrite td (maxn_idPl sd).
elim/round_ind: l ld => //= [t' /andP[h _]|s' t' l IH /and3P[hs ht /IH ->]]; first by rewrite leqW.
by rewrite andbT ltnS geq_max hs ht.
Qed.

Lemma rounds_depth d t l : depth t = d -> all (fun s => depth s <= d) l ->
  exists t', rounds (up_log 2 (size l).+1) (t :: l) = [:: t'] /\ depth t' = d + up_log 2 (size l).+1.
Proof.
have [n] := ubnP (size l); elim: n d t l => // n IH d t l; rewrite ltnS => ln td ld.
case: (posnP (size l)) => [/size0nil->|l0]; first by exists t; rewrite up_log1 addn0.
have [t' [l' [e t'd l'd]]] := depth_round td ld l0.
have sz : (size l').+1 = (size l)./2.+1 by rewrite -[LHS]/(size (t' :: l')) -e size_round.
have up : up_log 2 (size l).+1 = (up_log 2 (size l').+1).+1 by rewrite up_log2S // sz.
have [|t'' [e'' d'']] := IH d.+1 t' l' _ t'd l'd.
  apply: leq_trans ln; case: sz => ->; rewrite -ltn_double; apply: (@leq_ltn_trans (size l)).
    by rewrite -[X in _ <= X]odd_double_half leq_addl.
  by rewrite -addnn -[X in X < _]addn0 ltn_add2l.
have rS k L : rounds k.+1 L = rounds k (round L) by [].
by exists t''; rewrite up rS e e''; split=> //; rewrite d'' addSnnS.
Qed.

Lemma rounds_leaves k l : flatten (map leaves (rounds k l)) = flatten (map leaves l).
Proof. by elim: k l => //= k IH l; rewrite IH leaves_round. Qed.

(* The whole: a first chunk of c = (size l).+1 items x :: l and others of at most as many. *)
Definition reduce (cs : seq (T * seq T)) := let ts := [seq chain c.1 c.2 | c <- cs] in rounds (up_log 2 (size ts)) ts.

(* H6: c - 1 + ceil(lg p') steps for p' chunks, the items in their order. *)
Theorem H6_depth x l cs : all (fun c => size c.2 <= size l) cs ->
  exists t, [/\ reduce ((x, l) :: cs) = [:: t], leaves t = flatten [seq c.1 :: c.2 | c <- (x, l) :: cs]
    & depth t = size l + up_log 2 (size cs).+1].
Proof.
move=> le; have [hl hd] := chainP x l.
have [|t [e d]] := @rounds_depth (size l) (chain x l) [seq chain c.1 c.2 | c <- cs] hd.
  rewrite all_map; apply: sub_all le => c /=; by have [_ ->] := chainP c.1 c.2.
exists t; rewrite size_map in e d; split=> //; first by rewrite /reduce /= size_map.
have := rounds_leaves (up_log 2 (size cs).+1) (chain x l :: [seq chain c.1 c.2 | c <- cs]).
rewrite e /= cats0 hl => ->; congr (_ ++ _); rewrite -map_comp; congr flatten; apply: eq_map => c /=.
by have [-> _] := chainP c.1 c.2.
Qed.

(* H6: N items in chunks of c, the last one perhaps shorter, are p' = ceil(N/c) chunks. *)
Theorem H6_chunks N c p : 0 < c -> p.-1 * c < N <= p * c -> p = (N + c.-1) %/ c.
Proof.
case: c => // c _ /andP[lo hi]; case: p lo hi => [|p] /= lo hi; first by rewrite leqn0 in hi; rewrite (eqP hi) in lo.
have le : p.+1 * c.+1 <= N + c by rewrite mulSn addSn addnC -addSn leq_add2r.
have less : N + c - p.+1 * c.+1 < c.+1 by rewrite ltn_subLR // addnS ltnS leq_add2r.
by rewrite -[X in X %/ _](subnKC le) divnMDl // divn_small ?addn0.
Qed.

(* H6, p = N processors: ceil(lg N), which no tree does in fewer (H6_least). *)
Corollary H6_all (x : T) (xs : seq T) :
  exists2 t, leaves t = x :: xs & depth t = up_log 2 (size (x :: xs)).
Proof.
have [|t [_ tl td]] := @H6_depth x [::] [seq (y, [::]) | y <- xs]; first by elim: (xs).
exists t; last by rewrite td size_map.
rewrite tl /= -map_comp; congr (_ :: _); by elim: xs {tl td} => //= y ys ->.
Qed.

End Depth.
