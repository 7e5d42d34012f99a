"""Words of some languages that say nothing of what a text is about."""

from functools import lru_cache

_LISTS = {
    "de": """
        aber alle allem allen aller alles als also am an ander andere anderen auch auf aus
        bei beim bin bis bist da damit dann das dass dazu daß dein dem den denn der deren
        des deshalb dessen die dies diese diesem diesen dieser dieses doch dort du durch
        ein eine einem einen einer eines er es etwas euer für gegen haben hat hatte hatten
        hier hin ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in indem ins ist ja
        jede jedem jeden jeder jedes jedoch jene jetzt kann kein keine keinem keinen
        keiner können könnte man mehr mein mich mir mit muss müssen nach nicht nichts noch
        nun nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so
        sollte sondern sowie um und uns unser unter vom von vor war waren was weil welche
        welcher wenn wer werden wie wieder will wir wird wo wurde wurden zu zum zur
        zwischen über
    """,
    "es": """
        a al algo algunas algunos ante antes aquel aquella aquellos así aunque cada como
        con contra cual cuales cuando de del desde donde dos durante e el ella ellas ellos
        en entre era eran es esa esas ese eso esos esta estas este esto estos está están
        fue fueron ha había han hasta hay la las le les lo los me mi mientras mis mucho
        muchos muy más nada ni no nos nosotros nuestra nuestro o os otra otras otro otros
        para pero poco por porque que quien quienes qué se sea ser si sido sin sobre son
        su sus sí también tan tanto te tiene todo todos tu tus u un una uno unos y ya yo
        él
    """,
    "fr": """
        ainsi alors au aucun aussi autre autres aux avant avec avoir car ce ceci cela
        celle celles celui ces cet cette ceux chaque chez ci comme comment d dans de des
        donc dont du elle elles en encore entre est et eu eux fait ici il ils je l la le
        les leur leurs lors lui m ma mais me mes moi mon même n ne ni nos notre nous on
        ont ou où par pas peu peut plus pour qu quand que quel quelle quels qui s sa sans
        se ses si son sont sous sur ta te tes toi ton tous tout toute toutes très tu un
        une vos votre vous y à été être
    """,
    "it": """
        a ad agli ai al alla alle allo anche ancora avere c che chi ci ciò col come con
        così cui d da dagli dai dal dalla dalle degli dei del della delle dello di dopo
        dove due e ed era erano essere fra gli ha hanno i il in io l la le lei li lo loro
        lui ma mentre mi mia mio molto ne negli nei nel nella nelle nello noi non nostra
        nostro o ogni oltre per perché però più poi prima può qual quale quali quando
        quanto quella quelle quelli quello questa queste questi questo quindi se sei
        sempre senza si sia siamo solo sono stata stati stato su sua sue sugli sui sul
        sulla sulle suo tra tu tutta tutte tutti tutto un una uno vi voi è
    """,
    "nl": """
        aan al alle alleen als altijd ander andere ben bij bijna dan dat de deze die dit
        doen door dus een eens en er ge geen geweest had hebben heeft hem het hier hij hoe
        hun iemand iets ik in is ja je kan kon kunnen maar me meer men met mij mijn moet
        na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen tijdens
        toch toen tot tussen u uit uw van veel voor want waren was wat we wel werd wezen
        wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou
    """,
    "pt": """
        a ao aos aquela aquele aqueles as até cada com como da das de dela dele deles
        depois do dos e ela elas ele eles em entre era eram essa essas esse esses esta
        estas este estes está estão eu foi foram há isso isto já lhe lhes mais mas me
        mesmo meu minha muito na nas nem no nos nossa nosso num numa não nós o os ou para
        pela pelas pelo pelos por qual quando que quem se seja sem ser seu seus sobre sua
        suas são só também te tem tu têm um uma você vos à às é
    """,
    "sv": """
        alla allt att av blev bli blir blivit de dem den denna deras dess dessa det detta
        dig din ditt du där då efter ej eller en er ett från för ha hade han hans har
        henne hennes hon honom hur här i icke ingen inom inte jag ju kan kunde man med
        mellan men mig min mitt mot mycket ni nu när någon något några och om oss på samma
        sedan sig sin sina sitt själv skulle som så sådan till under upp ut utan vad var
        vara varför vart vem vi vid vilken än är åt över
    """,
}


@lru_cache
def stop_words_of(language: str) -> frozenset[str]:
    """Return articles, pronouns, prepositions, conjunctions and auxiliary verbs of a language; none
    where there is no list.
    """
    if language == "en":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # loads much

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(_LISTS.get(language, "").split())
